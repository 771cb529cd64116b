// What benchmarks need of the CUDA driver beyond the engine.
#include "bench/cuda.h"

#include <dlfcn.h>
#include <spdlog/fmt/fmt.h>

#include "tilec/error.h"

namespace tilec::bench {
namespace {

using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t,
                                    CUdriverProcAddressQueryResult*);

template <class Function>
void find(GetProcAddress get, const char* name, Function& function) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status{};
  if (get(name, &address, 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status) != CUDA_SUCCESS ||
      address == nullptr) {
    throw Error(ErrorKind::driver, fmt::format("the CUDA driver has no {}", name));
  }
  function = reinterpret_cast<Function>(address);
}

}  // namespace

void Cuda::check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  throw Error(ErrorKind::driver,
              fmt::format("{} failed with CUresult {}", what, static_cast<int>(result)));
}

Cuda::Cuda() {
  Device::first_cuda();  // opens and initialises the driver, or says why it can't
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  decltype(&::cuDevicePrimaryCtxRetain) retain = nullptr;
  decltype(&::cuCtxSetCurrent) set_current = nullptr;
  decltype(&::cuStreamCreate) stream_create = nullptr;
  find(get, "cuDevicePrimaryCtxRetain", retain);
  find(get, "cuCtxSetCurrent", set_current);
  find(get, "cuStreamCreate", stream_create);
  find(get, "cuLaunchKernel", launch_kernel_);
  find(get, "cuStreamSynchronize", stream_synchronize_);
  find(get, "cuStreamDestroy", stream_destroy_);
  find(get, "cuStreamBeginCapture", begin_capture_);
  find(get, "cuStreamEndCapture", end_capture_);
  find(get, "cuGraphInstantiateWithFlags", instantiate_);
  find(get, "cuGraphLaunch", graph_launch_);
  find(get, "cuGraphDestroy", graph_destroy_);
  find(get, "cuGraphExecDestroy", executable_destroy_);
  find(get, "cuEventCreate", event_create_);
  find(get, "cuEventDestroy", event_destroy_);
  find(get, "cuEventRecord", event_record_);
  find(get, "cuEventSynchronize", event_synchronize_);
  find(get, "cuEventElapsedTime", event_elapsed_);
  find(get, "cuLibraryLoadData", library_load_);
  find(get, "cuLibraryGetKernel", library_get_kernel_);
  find(get, "cuKernelGetFunction", kernel_get_function_);
  find(get, "cuFuncSetAttribute", function_set_attribute_);
  CUcontext context = nullptr;
  check(retain(&context, 0), "cuDevicePrimaryCtxRetain");
  check(set_current(context), "cuCtxSetCurrent");
  check(stream_create(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

Cuda::~Cuda() {
  stream_destroy_(stream_);
}

void Cuda::synchronize() const {
  check(stream_synchronize_(stream_), "cuStreamSynchronize");
}

CUfunction Cuda::load(const std::vector<std::byte>& cubin, const std::string& entry,
                      int shared_bytes) const {
  CUlibrary library = nullptr;  // stays loaded: the benchmark ends with the process
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  check(library_load_(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "cuLibraryLoadData");
  check(library_get_kernel_(&kernel, library, entry.c_str()), "cuLibraryGetKernel");
  check(kernel_get_function_(&function, kernel), "cuKernelGetFunction");
  if (shared_bytes > 48 * 1024) {
    check(function_set_attribute_(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                  shared_bytes),
          "cuFuncSetAttribute");
  }
  return function;
}

Cuda::Graph::Graph(const Cuda& cuda, int calls, const std::function<void(int)>& enqueue)
    : cuda_(cuda), calls_(calls) {
  CUgraph graph = nullptr;
  check(cuda.begin_capture_(cuda.stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
        "cuStreamBeginCapture");
  for (int i = 0; i < calls; ++i) enqueue(i);
  check(cuda.end_capture_(cuda.stream_, &graph), "cuStreamEndCapture");
  check(cuda.instantiate_(&executable_, graph, 0), "cuGraphInstantiate");
  cuda.graph_destroy_(graph);
  check(cuda.event_create_(&start_, CU_EVENT_DEFAULT), "cuEventCreate");
  check(cuda.event_create_(&stop_, CU_EVENT_DEFAULT), "cuEventCreate");
}

Cuda::Graph::~Graph() {
  cuda_.event_destroy_(start_);
  cuda_.event_destroy_(stop_);
  cuda_.executable_destroy_(executable_);
}

double Cuda::Graph::replay() const {
  check(cuda_.event_record_(start_, cuda_.stream_), "cuEventRecord");
  check(cuda_.graph_launch_(executable_, cuda_.stream_), "cuGraphLaunch");
  check(cuda_.event_record_(stop_, cuda_.stream_), "cuEventRecord");
  check(cuda_.event_synchronize_(stop_), "cuEventSynchronize");
  float milliseconds = 0;
  check(cuda_.event_elapsed_(&milliseconds, start_, stop_), "cuEventElapsedTime");
  return static_cast<double>(milliseconds) / 1e3 / calls_;
}

}  // namespace tilec::bench
