// The made-up driver's entry points.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "tests/support/fake_cuda_state.h"

namespace fake_cuda {
namespace {

// Every entry point starts with one: holds the lock, records, and says whether to fail.
class Entered {
 public:
  explicit Entered(const char* call) : lock_(state().mutex) {
    State& s = state();
    s.calls.emplace_back(call);
    if (!s.initialised) result_ = CUDA_ERROR_NOT_INITIALIZED;
    for (Fault& fault : s.faults) {
      if (fault.call != call || fault.times == 0) continue;
      if (fault.after > 0) {
        --fault.after;
        continue;
      }
      --fault.times;
      result_ = fault.result;
      return;
    }
  }
  bool failed() const { return result_ != CUDA_SUCCESS; }
  CUresult result() const { return result_; }
  // For calls that a global capture forbids.
  void unsafe() {
    State& s = state();
    if (failed() || !s.capturing || mode == CU_STREAM_CAPTURE_MODE_RELAXED) return;
    s.capture_broken = true;
    result_ = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  void needs_context() {
    if (!failed() && top() == nullptr) result_ = CUDA_ERROR_INVALID_CONTEXT;
  }
  void works_in(CUstream stream) {
    needs_context();
    State& s = state();
    const bool is_default = reinterpret_cast<std::uintptr_t>(stream) <= 2;
    if (failed()) return;
    if (!is_default && stream->context != top()) result_ = CUDA_ERROR_INVALID_HANDLE;
    if (is_default && s.capturing) {
      s.capture_broken = true;
      result_ = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
  }
  void fail(CUresult result) {
    if (!failed()) result_ = result;
  }

 private:
  std::unique_lock<std::mutex> lock_;
  CUresult result_ = CUDA_SUCCESS;
};

bool is_device(CUdevice device) {
  return device >= 0 && device < state().devices;
}

void set_up_from_environment(State& s) {
  const char* text = std::getenv("FAKE_CUDA");
  std::istringstream words(text == nullptr ? "" : text);
  for (std::string word; words >> word;) {
    const std::string name = word.substr(0, word.find('='));
    const std::string value = word.substr(name.size() + 1);
    if (name == "init") s.init_result = static_cast<CUresult>(std::stoi(value));
    if (name == "devices") s.devices = std::stoi(value);
    if (name == "missing") s.missing.insert(value);
    if (name == "fail") {
      std::istringstream parts(value);
      std::string call, result, after;
      std::getline(parts, call, ':');
      std::getline(parts, result, ':');
      std::getline(parts, after);
      s.faults.push_back({call, static_cast<CUresult>(std::stoi(result)), 1 << 30,
                          after.empty() ? 0 : std::stoi(after)});
    }
    if (name == "hold_init") s.hold_init = value;
    if (name == "sm") s.sm = std::stoi(value);
    if (name == "mode") s.compute_mode = static_cast<CUcomputemode>(std::stoi(value));
  }
}

CUresult init(unsigned) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.calls.emplace_back("cuInit");
  if (!s.initialised) set_up_from_environment(s);
  if (!s.hold_init.empty()) {
    std::ofstream(s.hold_init) << "in cuInit";
    while (access(s.hold_init.c_str(), F_OK) == 0) usleep(1000);
  }
  s.initialised = s.init_result == CUDA_SUCCESS;
  return s.init_result;
}

CUresult driver_get_version(int* version) {
  Entered call("cuDriverGetVersion");
  *version = 13000;
  return call.result();
}

struct ResultName {
  CUresult result;
  const char *name, *text;
};
#define FAKE_CUDA_NAME(result, text) \
  { result, #result, text }
constexpr ResultName kNames[] = {
    FAKE_CUDA_NAME(CUDA_SUCCESS, "no error"),
    FAKE_CUDA_NAME(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    FAKE_CUDA_NAME(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    FAKE_CUDA_NAME(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    FAKE_CUDA_NAME(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    FAKE_CUDA_NAME(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution"),
    FAKE_CUDA_NAME(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                   "the PTX was compiled with a newer compiler"),
    FAKE_CUDA_NAME(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    FAKE_CUDA_NAME(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    FAKE_CUDA_NAME(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    FAKE_CUDA_NAME(CUDA_ERROR_DEVICE_UNAVAILABLE, "the device is busy or unavailable"),
    FAKE_CUDA_NAME(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    FAKE_CUDA_NAME(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                   "operation not permitted while capturing"),
    FAKE_CUDA_NAME(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "would depend on the legacy stream"),
};
#undef FAKE_CUDA_NAME

CUresult get_error_name(CUresult result, const char** name) {
  *name = nullptr;
  for (const ResultName& known : kNames) {
    if (known.result == result) *name = known.name;
  }
  return *name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult get_error_string(CUresult result, const char** text) {
  *text = nullptr;
  for (const ResultName& known : kNames) {
    if (known.result == result) *text = known.text;
  }
  return *text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult device_get(CUdevice* device, int ordinal) {
  Entered call("cuDeviceGet");
  if (!is_device(ordinal)) call.fail(CUDA_ERROR_INVALID_DEVICE);
  *device = ordinal;
  return call.result();
}

CUresult device_get_count(int* count) {
  Entered call("cuDeviceGetCount");
  *count = state().devices;
  return call.result();
}

CUresult device_get_name(char* name, int size, CUdevice device) {
  Entered call("cuDeviceGetName");
  std::strncpy(name, device == 0 ? "Fake GPU" : "Fake GPU, the other",
               static_cast<std::size_t>(size));
  return call.result();
}

CUresult device_get_attribute(int* value, CUdevice_attribute which, CUdevice device) {
  Entered call("cuDeviceGetAttribute");
  static const std::map<CUdevice_attribute, int> known = {
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, kSharedAtMost},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 228 * 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 60 << 20},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3201000},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 6144},
  };
  const auto found = known.find(which);
  const int sm = state().sm != 0 ? state().sm : device == 0 ? 90 : 80;
  if (which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) {
    *value = sm / 10;
  } else if (which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) {
    *value = sm % 10;
  } else if (which == CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) {
    *value = state().compute_mode;
  } else if (found != known.end()) {
    *value = found->second;
  } else {
    call.fail(CUDA_ERROR_INVALID_VALUE);
  }
  return call.result();
}

CUresult primary_ctx_retain(CUcontext* context, CUdevice device) {
  Entered call("cuDevicePrimaryCtxRetain");
  call.unsafe();
  if (!is_device(device)) call.fail(CUDA_ERROR_INVALID_DEVICE);
  if (!call.failed()) *context = &state().primaries[static_cast<std::size_t>(device)];
  return call.result();
}

CUresult ctx_get_current(CUcontext* context) {
  Entered call("cuCtxGetCurrent");
  *context = top();
  return call.result();
}

CUresult ctx_get_device(CUdevice* device) {
  Entered call("cuCtxGetDevice");
  call.needs_context();
  if (!call.failed()) *device = top()->device;
  return call.result();
}

CUresult ctx_push_current(CUcontext context) {
  Entered call("cuCtxPushCurrent");
  if (context == nullptr) call.fail(CUDA_ERROR_INVALID_CONTEXT);
  if (!call.failed()) stack.push_back(context);
  return call.result();
}

CUresult ctx_pop_current(CUcontext* context) {
  Entered call("cuCtxPopCurrent");
  call.needs_context();
  if (call.failed()) return call.result();
  *context = top();
  stack.pop_back();
  return call.result();
}

CUresult stream_get_ctx(CUstream stream, CUcontext* context) {
  Entered call("cuStreamGetCtx");
  const auto& all = state().streams;
  if (std::none_of(all.begin(), all.end(), [&](const auto& one) { return one.get() == stream; })) {
    call.fail(CUDA_ERROR_INVALID_HANDLE);
  }
  if (!call.failed()) *context = stream->context;
  return call.result();
}

CUresult stream_synchronize(CUstream stream) {
  Entered call("cuStreamSynchronize");
  call.works_in(stream);
  return call.result();
}

CUresult exchange_capture_mode(CUstreamCaptureMode* other) {
  Entered call("cuThreadExchangeStreamCaptureMode");
  if (!call.failed()) std::swap(*other, mode);
  return call.result();
}

constexpr std::size_t kElfHeader = 64;

// A cubin's tag stands behind its ELF header; PTX is all tag.
std::string tag_of(const void* image) {
  const char* bytes = static_cast<const char*>(image);
  return std::memcmp(bytes,
                     "\x7f"
                     "ELF",
                     4) == 0
             ? bytes + kElfHeader
             : bytes;
}

// False where the others did not come.
bool meet_other_loads() {
  State& s = state();
  std::unique_lock lock(s.mutex);
  if (s.loads_inside >= s.loads_to_meet) return true;
  if (++s.loads_inside == s.loads_to_meet) s.loads_met.notify_all();
  return s.loads_met.wait_for(lock, std::chrono::seconds(20),
                              [&] { return s.loads_inside >= s.loads_to_meet; });
}

CUresult library_load_data(CUlibrary* library, const void* image, CUjit_option*, void**, unsigned,
                           CUlibraryOption*, void**, unsigned) {
  const bool alone = !meet_other_loads();
  Entered call("cuLibraryLoadData");
  call.unsafe();
  if (alone) call.fail(CUDA_ERROR_TIMEOUT);
  State& s = state();
  const std::string tag = tag_of(image);
  for (const auto& [part, result] : s.rejected) {
    if (tag.find(part) != std::string::npos) call.fail(result);
  }
  if (call.failed()) return call.result();
  auto loaded = std::make_unique<CUlib_st>(CUlib_st{tag, {}});
  *library = loaded.get();
  s.libraries.emplace(*library, std::move(loaded));
  return CUDA_SUCCESS;
}

CUresult library_unload(CUlibrary library) {
  Entered call("cuLibraryUnload");
  call.unsafe();
  if (!state().libraries.contains(library)) call.fail(CUDA_ERROR_INVALID_HANDLE);
  if (!call.failed()) state().libraries.erase(library);
  return call.result();
}

CUresult library_get_kernel(CUkernel* kernel, CUlibrary library, const char* name) {
  Entered call("cuLibraryGetKernel");
  if (!state().libraries.contains(library)) call.fail(CUDA_ERROR_INVALID_HANDLE);
  if (call.failed()) return call.result();
  std::unique_ptr<CUkern_st>& known = library->kernels[name];
  if (known == nullptr) known.reset(new CUkern_st{library, name, {}, {}});
  *kernel = known.get();
  return CUDA_SUCCESS;
}

CUresult kernel_get_function(CUfunction* function, CUkernel kernel) {
  Entered call("cuKernelGetFunction");
  call.needs_context();
  call.unsafe();
  if (call.failed()) return call.result();
  kernel->loaded.insert(top());
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

// Every kernel has 48 registers and the same static shared memory.
CUresult kernel_get_attribute(int* value, CUfunction_attribute which, CUkernel, CUdevice) {
  Entered call("cuKernelGetAttribute");
  switch (which) {
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 48;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = state().max_threads;
      break;
    default:
      *value = kSharedStatic;
  }
  return call.result();
}

CUresult kernel_set_attribute(CUfunction_attribute which, int value, CUkernel kernel,
                              CUdevice device) {
  Entered call("cuKernelSetAttribute");
  if (which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
      value + kSharedStatic > kSharedAtMost) {
    call.fail(CUDA_ERROR_INVALID_VALUE);
  }
  if (!call.failed()) kernel->max_dynamic_shared[device] = value;
  return call.result();
}

bool is_loaded(CUkernel kernel) {
  for (const auto& [library, owned] : state().libraries) {
    for (const auto& [name, held] : owned->kernels) {
      if (held.get() == kernel) return true;
    }
  }
  return false;
}

CUresult launch_kernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                       CUstream stream, void** parameters, void**) {
  Entered call("cuLaunchKernel");
  State& s = state();
  const auto kernel = reinterpret_cast<CUkernel>(function);
  // A CUkernel is launched in its stream's context, whatever is current.
  const bool is_default = reinterpret_cast<std::uintptr_t>(stream) <= 2;
  if (is_default) call.works_in(stream);
  const CUcontext context = is_default ? top() : stream->context;
  if (!is_loaded(kernel)) call.fail(CUDA_ERROR_INVALID_HANDLE);
  if (call.failed()) return call.result();
  if (s.capturing && !kernel->loaded.contains(context)) {
    s.capture_broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  kernel->loaded.insert(context);
  const auto allowed = kernel->max_dynamic_shared.find(context->device);
  const int most = allowed == kernel->max_dynamic_shared.end() ? kSharedByDefault : allowed->second;
  const bool empty = grid_x == 0 || grid_y == 0 || grid_z == 0 || block_x * block_y * block_z == 0;
  if (empty || block_x * block_y * block_z > 1024 || static_cast<int>(shared_bytes) > most ||
      grid_y > 65535 || grid_z > 65535) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto* first = static_cast<const std::byte*>(parameters[0]);
  s.launches.push_back({kernel->name,
                        context,
                        stream,
                        {grid_x, grid_y, grid_z},
                        {block_x, block_y, block_z},
                        shared_bytes,
                        std::vector<std::byte>(first, first + s.argument_bytes)});
  return CUDA_SUCCESS;
}

CUresult mem_alloc(CUdeviceptr* pointer, std::size_t bytes) {
  Entered call("cuMemAlloc");
  call.needs_context();
  call.unsafe();
  if (bytes == 0) call.fail(CUDA_ERROR_INVALID_VALUE);
  if (bytes > std::size_t{1} << 40) call.fail(CUDA_ERROR_OUT_OF_MEMORY);
  if (call.failed()) return call.result();
  *pointer = reinterpret_cast<CUdeviceptr>(std::calloc(bytes, 1));
  state().memory[*pointer] = bytes;
  return CUDA_SUCCESS;
}

CUresult mem_free(CUdeviceptr pointer) {
  Entered call("cuMemFree");
  call.needs_context();
  call.unsafe();
  if (!call.failed() && state().memory.erase(pointer) == 0) call.fail(CUDA_ERROR_INVALID_VALUE);
  if (!call.failed()) std::free(reinterpret_cast<void*>(pointer));
  return call.result();
}

CUresult memcpy_host_to_device(CUdeviceptr to, const void* from, std::size_t bytes,
                               CUstream stream) {
  Entered call("cuMemcpyHtoDAsync");
  call.works_in(stream);
  if (!call.failed()) std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return call.result();
}

CUresult memcpy_device_to_host(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  Entered call("cuMemcpyDtoHAsync");
  call.works_in(stream);
  if (!call.failed()) std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return call.result();
}

CUresult memset_d8(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream stream) {
  Entered call("cuMemsetD8Async");
  call.works_in(stream);
  if (!call.failed()) std::memset(reinterpret_cast<void*>(to), value, bytes);
  return call.result();
}

struct EntryPoint {
  const char* name;
  int since;  // the version that brought it
  void* address;
};

template <class Function>
EntryPoint entry(const char* name, int since, Function* function) {
  return {name, since, reinterpret_cast<void*>(function)};
}

const std::vector<EntryPoint>& entry_points() {
  static const std::vector<EntryPoint> list = {
      entry("cuInit", 2000, init),
      entry("cuDriverGetVersion", 2020, driver_get_version),
      entry("cuGetErrorName", 6000, get_error_name),
      entry("cuGetErrorString", 6000, get_error_string),
      entry("cuDeviceGet", 2000, device_get),
      entry("cuDeviceGetCount", 2000, device_get_count),
      entry("cuDeviceGetName", 2000, device_get_name),
      entry("cuDeviceGetAttribute", 2000, device_get_attribute),
      entry("cuDevicePrimaryCtxRetain", 7000, primary_ctx_retain),
      entry("cuCtxGetCurrent", 4000, ctx_get_current),
      entry("cuCtxGetDevice", 2000, ctx_get_device),
      entry("cuCtxPushCurrent", 4000, ctx_push_current),
      entry("cuCtxPopCurrent", 4000, ctx_pop_current),
      entry("cuStreamGetCtx", 9020, stream_get_ctx),
      entry("cuStreamSynchronize", 2000, stream_synchronize),
      entry("cuThreadExchangeStreamCaptureMode", 10010, exchange_capture_mode),
      entry("cuLibraryLoadData", 12000, library_load_data),
      entry("cuLibraryUnload", 12000, library_unload),
      entry("cuLibraryGetKernel", 12000, library_get_kernel),
      entry("cuKernelGetFunction", 12000, kernel_get_function),
      entry("cuKernelGetAttribute", 12000, kernel_get_attribute),
      entry("cuKernelSetAttribute", 12000, kernel_set_attribute),
      entry("cuLaunchKernel", 4000, launch_kernel),
      entry("cuMemAlloc", 3020, mem_alloc),
      entry("cuMemFree", 3020, mem_free),
      entry("cuMemcpyHtoDAsync", 3020, memcpy_host_to_device),
      entry("cuMemcpyDtoHAsync", 3020, memcpy_device_to_host),
      entry("cuMemsetD8Async", 3020, memset_d8),
  };
  return list;
}

}  // namespace
}  // namespace fake_cuda

// What dlsym finds.
extern "C" __attribute__((visibility("default"))) CUresult cuInit(unsigned flags) {
  return fake_cuda::init(flags);
}

extern "C" __attribute__((visibility("default"))) CUresult cuGetProcAddress(
    const char* symbol, void** address, int version, cuuint64_t,
    CUdriverProcAddressQueryResult* status) {
  *address = nullptr;
  if (status != nullptr) *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (fake_cuda::state().missing.contains(symbol)) return CUDA_ERROR_NOT_FOUND;
  for (const auto& known : fake_cuda::entry_points()) {
    if (std::strcmp(known.name, symbol) != 0) continue;
    if (version < known.since) {
      if (status != nullptr) *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
      return CUDA_ERROR_NOT_FOUND;
    }
    *address = known.address;
    if (status != nullptr) *status = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}
