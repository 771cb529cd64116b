// What a test tells the made-up driver, and asks of it.
#include "tests/support/fake_cuda.h"

#include <algorithm>

#include "tests/support/fake_cuda_state.h"

namespace fake_cuda {

CUcontext primary(int device) {
  return &state().primaries.at(static_cast<std::size_t>(device));
}

void set_devices(int devices) {
  const std::lock_guard lock(state().mutex);
  state().devices = devices;
}

CUcontext create_context(int device) {
  const std::lock_guard lock(state().mutex);
  state().contexts.push_back(std::make_unique<CUctx_st>(CUctx_st{device}));
  return state().contexts.back().get();
}

CUstream create_stream(CUcontext context) {
  const std::lock_guard lock(state().mutex);
  state().streams.push_back(std::make_unique<CUstream_st>(CUstream_st{context}));
  return state().streams.back().get();
}

void set_current(CUcontext context) {
  stack.clear();
  if (context != nullptr) stack.push_back(context);
}
CUcontext current() {
  return top();
}
int stack_depth() {
  return static_cast<int>(stack.size());
}
CUstreamCaptureMode capture_mode() {
  return mode;
}
void set_capture_mode(CUstreamCaptureMode other) {
  mode = other;
}

void begin_capture() {
  const std::lock_guard lock(state().mutex);
  state().capturing = true;
  state().capture_broken = false;
}
bool end_capture() {
  const std::lock_guard lock(state().mutex);
  state().capturing = false;
  return !state().capture_broken;
}

void reset() {
  const std::lock_guard lock(state().mutex);
  state().calls.clear();
  state().launches.clear();
  state().faults.clear();
  state().rejected.clear();
  state().max_threads = 1024;
}
std::vector<std::string> calls() {
  const std::lock_guard lock(state().mutex);
  return state().calls;
}
int count(const std::string& call) {
  const std::vector<std::string> all = calls();
  return static_cast<int>(std::count(all.begin(), all.end(), call));
}
std::vector<Launch> launches() {
  const std::lock_guard lock(state().mutex);
  return state().launches;
}
void set_argument_bytes(std::size_t bytes) {
  const std::lock_guard lock(state().mutex);
  state().argument_bytes = bytes;
}
void set_max_threads(int threads) {
  const std::lock_guard lock(state().mutex);
  state().max_threads = threads;
}
void fail(const std::string& call, CUresult result, int times, int after) {
  const std::lock_guard lock(state().mutex);
  state().faults.push_back({call, result, times, after});
}
void reject(const std::string& tag, CUresult result) {
  const std::lock_guard lock(state().mutex);
  state().rejected[tag] = result;
}

void let_loads_meet(int loads) {
  const std::lock_guard lock(state().mutex);
  state().loads_to_meet = loads;
  state().loads_inside = 0;
}

int loaded_libraries() {
  const std::lock_guard lock(state().mutex);
  return static_cast<int>(state().libraries.size());
}
int max_dynamic_shared_bytes(const std::string& kernel, int device) {
  const std::lock_guard lock(state().mutex);
  int most = 0;
  for (const auto& [library, owned] : state().libraries) {
    const auto found = owned->kernels.find(kernel);
    if (found == owned->kernels.end()) continue;
    const auto allowed = found->second->max_dynamic_shared.find(device);
    if (allowed != found->second->max_dynamic_shared.end()) most = std::max(most, allowed->second);
  }
  return most;
}
std::size_t allocated_bytes() {
  const std::lock_guard lock(state().mutex);
  std::size_t sum = 0;
  for (const auto& [pointer, bytes] : state().memory) sum += bytes;
  return sum;
}

}  // namespace fake_cuda
