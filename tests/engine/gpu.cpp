#include "gpu.h"

#include <dlfcn.h>

namespace tilec::test {
namespace {

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

const std::optional<Gpu>& Gpu::find() {
  static const std::optional<Gpu> found = []() -> std::optional<Gpu> {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return std::nullopt;
    CUresult (*init)(unsigned) = nullptr;
    Gpu gpu;
    using test::find;
    const bool all = find(library, "cuInit", init) &&
                     find(library, "cuCtxCreate_v2", gpu.ctx_create) &&
                     find(library, "cuCtxDestroy_v2", gpu.ctx_destroy) &&
                     find(library, "cuCtxSetCurrent", gpu.ctx_set_current) &&
                     find(library, "cuCtxGetCurrent", gpu.ctx_get_current) &&
                     find(library, "cuCtxSynchronize", gpu.ctx_synchronize) &&
                     find(library, "cuDevicePrimaryCtxRetain", gpu.primary_ctx_retain) &&
                     find(library, "cuDeviceGetCount", gpu.device_count) &&
                     find(library, "cuStreamCreate", gpu.stream_create) &&
                     find(library, "cuStreamDestroy_v2", gpu.stream_destroy) &&
                     find(library, "cuStreamSynchronize", gpu.stream_synchronize) &&
                     find(library, "cuStreamBeginCapture_v2", gpu.stream_begin_capture) &&
                     find(library, "cuStreamEndCapture", gpu.stream_end_capture) &&
                     find(library, "cuLaunchHostFunc", gpu.launch_host_function) &&
                     find(library, "cuGraphInstantiateWithFlags", gpu.graph_instantiate) &&
                     find(library, "cuGraphLaunch", gpu.graph_launch) &&
                     find(library, "cuGraphExecDestroy", gpu.graph_exec_destroy) &&
                     find(library, "cuGraphDestroy", gpu.graph_destroy) &&
                     find(library, "cuLibraryLoadData", gpu.library_load_data) &&
                     find(library, "cuLibraryGetKernel", gpu.library_get_kernel) &&
                     find(library, "cuLibraryUnload", gpu.library_unload) &&
                     find(library, "cuKernelGetFunction", gpu.kernel_get_function) &&
                     find(library, "cuFuncSetAttribute", gpu.function_set_attribute) &&
                     find(library, "cuFuncGetAttribute", gpu.function_get_attribute) &&
                     find(library, "cuOccupancyMaxActiveBlocksPerMultiprocessor", gpu.occupancy);
    int count = 0;
    if (!all || init(0) != CUDA_SUCCESS || gpu.device_count(&count) != CUDA_SUCCESS || count == 0) {
      return std::nullopt;
    }
    return gpu;
  }();
  return found;
}

CUcontext Gpu::current() const {
  CUcontext context = nullptr;
  REQUIRE(ctx_get_current(&context) == CUDA_SUCCESS);
  return context;
}

CUcontext Gpu::primary() const {
  CUcontext context = nullptr;
  REQUIRE(primary_ctx_retain(&context, 0) == CUDA_SUCCESS);
  return context;
}

TestStream::TestStream(const Gpu& gpu) : gpu_(gpu) {
  REQUIRE(gpu_.stream_create(&stream_, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
}
TestStream::~TestStream() {
  gpu_.stream_destroy(stream_);
}
void TestStream::synchronize() const {
  REQUIRE(gpu_.stream_synchronize(stream_) == CUDA_SUCCESS);
}

Current::Current(const Gpu& gpu, CUcontext context) : gpu_(gpu), before_(gpu.current()) {
  REQUIRE(gpu_.ctx_set_current(context) == CUDA_SUCCESS);
}
Current::~Current() {
  gpu_.ctx_set_current(before_);
}

}  // namespace tilec::test
