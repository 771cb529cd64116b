// Opens libcuda.so.1 and finds its entry points by name and version.
#include "device/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <spdlog/fmt/fmt.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string_view>

#include "fork.h"

namespace tilec {
namespace {

// The version whose symbols we ask for: the least driver that has cuLibrary and cuKernel.
constexpr int kLeastVersion = 12000;

using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t,
                                    CUdriverProcAddressQueryResult*);

template <class Function>
void find(GetProcAddress get_proc_address, const char* name, Function& function) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status{};
  const CUresult result =
      get_proc_address(name, &address, kLeastVersion, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status);
  if (result != CUDA_SUCCESS || address == nullptr) {
    throw Error(ErrorKind::driver, fmt::format("the CUDA driver has no {}: tilec needs a driver of "
                                               "CUDA 12.0 or later",
                                               name));
  }
  function = reinterpret_cast<Function>(address);
}

void find_all(GetProcAddress get, Driver& driver) {
  find(get, "cuInit", driver.init);
  find(get, "cuDriverGetVersion", driver.driver_get_version);
  find(get, "cuGetErrorName", driver.get_error_name);
  find(get, "cuGetErrorString", driver.get_error_string);
  find(get, "cuDeviceGet", driver.device_get);
  find(get, "cuDeviceGetCount", driver.device_get_count);
  find(get, "cuDeviceGetName", driver.device_get_name);
  find(get, "cuDeviceGetAttribute", driver.device_get_attribute);
  find(get, "cuDevicePrimaryCtxRetain", driver.primary_ctx_retain);
  find(get, "cuCtxGetCurrent", driver.ctx_get_current);
  find(get, "cuCtxGetDevice", driver.ctx_get_device);
  find(get, "cuCtxPushCurrent", driver.ctx_push_current);
  find(get, "cuCtxPopCurrent", driver.ctx_pop_current);
  find(get, "cuStreamGetCtx", driver.stream_get_ctx);
  find(get, "cuStreamSynchronize", driver.stream_synchronize);
  find(get, "cuThreadExchangeStreamCaptureMode", driver.exchange_capture_mode);
  find(get, "cuLibraryLoadData", driver.library_load_data);
  find(get, "cuLibraryUnload", driver.library_unload);
  find(get, "cuLibraryGetKernel", driver.library_get_kernel);
  find(get, "cuKernelGetFunction", driver.kernel_get_function);
  find(get, "cuKernelGetAttribute", driver.kernel_get_attribute);
  find(get, "cuKernelSetAttribute", driver.kernel_set_attribute);
  find(get, "cuLaunchKernel", driver.launch_kernel);
  find(get, "cuMemAlloc", driver.mem_alloc);
  find(get, "cuMemFree", driver.mem_free);
  find(get, "cuMemcpyHtoDAsync", driver.memcpy_host_to_device);
  find(get, "cuMemcpyDtoHAsync", driver.memcpy_device_to_host);
  find(get, "cuMemsetD8Async", driver.memset_d8);
}

// The result by name, also before the driver's own names can be asked for.
std::string no_driver_message(CUresult result) {
  constexpr std::string_view kAdvice =
      ". To run kernels on the CPU instead, ask for the host device: Device::host(), or "
      "--device host";
  if (result == CUDA_ERROR_STUB_LIBRARY) {
    return fmt::format("libcuda.so.1 is the toolkit's stub, not a driver{}", kAdvice);
  }
  if (result == CUDA_ERROR_NO_DEVICE) {
    return fmt::format("the CUDA driver sees no GPU (is CUDA_VISIBLE_DEVICES set?){}", kAdvice);
  }
  return fmt::format("cuInit failed with CUresult {}{}", static_cast<int>(result), kAdvice);
}

std::unique_ptr<Driver> open_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    throw Error(
        ErrorKind::driver,
        fmt::format("there is no CUDA driver on this machine ({}). Install NVIDIA's driver, "
                    "or run kernels on the CPU with the host device: Device::host(), or "
                    "--device host",
                    why == nullptr ? "libcuda.so.1 not found" : why));
  }
  // A stub, or a driver of CUDA 11, may have no cuGetProcAddress_v2.
  const auto init = reinterpret_cast<decltype(&::cuInit)>(dlsym(library, "cuInit"));
  if (init == nullptr) {
    throw Error(ErrorKind::driver, "libcuda.so.1 has no cuInit: it is not a CUDA driver");
  }
  if (const CUresult result = init(0); result != CUDA_SUCCESS) {
    throw Error(ErrorKind::driver, no_driver_message(result));
  }
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) {
    throw Error(ErrorKind::driver,
                "the CUDA driver is older than 12.0, the least that tilec works with: update it");
  }
  auto driver = std::make_unique<Driver>();
  find_all(get, *driver);
  driver->check(driver->driver_get_version(&driver->version), "cuDriverGetVersion");
  pthread_atfork(nullptr, nullptr,
                 [] { forked_after_driver.store(true, std::memory_order_relaxed); });
  return driver;
}

}  // namespace

const Driver& Driver::get() {
  // Leaked on purpose: destructors of static objects may still need it.
  static std::mutex& mutex = *new std::mutex;
  static std::atomic<const Driver*> opened{nullptr};
  if (const Driver* driver = opened.load(std::memory_order_acquire)) {
    refuse_after_fork();
    return *driver;
  }
  if (forked_inside(Library::driver)) throw_forked();
  const InLibrary here(Library::driver);
  const std::lock_guard lock(mutex);
  if (opened.load(std::memory_order_relaxed) == nullptr) {
    opened.store(open_driver().release(), std::memory_order_release);
  }
  return *opened.load(std::memory_order_relaxed);
}

std::string Driver::describe(CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  get_error_name(result, &name);
  get_error_string(result, &text);
  return fmt::format("{} ({})", name == nullptr ? std::to_string(result) : name,
                     text == nullptr ? "no description" : text);
}

void Driver::fail(CUresult result, const char* what, std::source_location where) const {
  // These tell of work that was enqueued before the call that reports them.
  const bool asynchronous =
      result == CUDA_ERROR_ILLEGAL_ADDRESS || result == CUDA_ERROR_LAUNCH_FAILED ||
      result == CUDA_ERROR_LAUNCH_TIMEOUT || result == CUDA_ERROR_ASSERT ||
      result == CUDA_ERROR_MISALIGNED_ADDRESS || result == CUDA_ERROR_ILLEGAL_INSTRUCTION ||
      result == CUDA_ERROR_INVALID_ADDRESS_SPACE || result == CUDA_ERROR_INVALID_PC ||
      result == CUDA_ERROR_HARDWARE_STACK_ERROR || result == CUDA_ERROR_ECC_UNCORRECTABLE;
  const std::string_view file = where.file_name();
  throw Error(ErrorKind::driver,
              fmt::format("{} failed: {}{} [{}:{}]", what, describe(result),
                          asynchronous ? "; an earlier asynchronous fault of this program may be "
                                         "the cause"
                                       : "",
                          file.substr(file.rfind('/') + 1), where.line()));
}

void throw_forked() {
  throw Error(ErrorKind::driver,
              "this process was forked from one that had already used CUDA: the driver does not "
              "work in such a child. Fork before the first Engine, or exec");
}

}  // namespace tilec
