// Opens libcuda.so.1 and finds its entry points by name and version.
#include "device/driver.h"

#include <dlfcn.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>

#include "device/driver_advice.h"
#include "fork.h"
#include "loader.h"

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

constexpr std::string_view kHostDevice =
    ". To run kernels on the CPU instead, ask for the host device: Device::host(), or "
    "--device host";

// Before the driver's own names can be asked for.
std::string init_failure(CUresult result, const std::string& path) {
  const DriverAdvice* advice = driver_advice(result);
  return fmt::format("cuInit of {} failed: {}{}", path,
                     advice == nullptr ? fmt::format("CUresult {}", static_cast<int>(result))
                                       : fmt::format("{} ({}): {}", advice->name,
                                                     static_cast<int>(result), advice->text),
                     kHostDevice);
}

// Where the loader does not look by itself, but drivers are put: WSL, NixOS, containers, Colab.
constexpr std::array<const char*, 6> kPlaces{"libcuda.so.1",
                                             "/usr/lib/wsl/lib/libcuda.so.1",
                                             "/run/opengl-driver/lib/libcuda.so.1",
                                             "/usr/local/nvidia/lib64/libcuda.so.1",
                                             "/usr/local/nvidia/lib/libcuda.so.1",
                                             "/usr/lib64-nvidia/libcuda.so.1"};

std::unique_ptr<Driver> open_driver() {
  void* const library = open_driver_library(kPlaces);
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) {
    throw Error(ErrorKind::driver,
                fmt::format("the CUDA driver ({}) is older than 12.0, the least that tilec works "
                            "with: update it",
                            path_of(library).string()));
  }
  auto driver = std::make_unique<Driver>();
  find_all(get, *driver);
  driver->check(driver->driver_get_version(&driver->version), "cuDriverGetVersion");
  return driver;
}

// Never destroyed: destructors of static objects may still need the driver.
constinit std::mutex opening_mutex;
constinit std::atomic<const Driver*> opened{nullptr};

}  // namespace

void* open_driver_library(std::span<const char* const> places) {
  std::string looked, stub;
  for (const char* place : places) {
    if (!looked.empty()) looked += ", ";
    void* const library = dlopen(place, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* why = dlerror();
      const bool is_path = std::strchr(place, '/') != nullptr;
      looked += is_path && access(place, F_OK) != 0 ? place : why;
      continue;
    }
    // Asked for by this name: a stub, or a driver of CUDA 11, may have no cuGetProcAddress_v2.
    const auto init = reinterpret_cast<decltype(&::cuInit)>(dlsym(library, "cuInit"));
    if (init == nullptr) {
      looked += path_of(library).string() + " (has no cuInit: it is not a CUDA driver)";
      continue;
    }
    const CUresult result = init(0);
    if (result == CUDA_SUCCESS) return library;
    const std::string failure = init_failure(result, path_of(library).string());
    if (result != CUDA_ERROR_STUB_LIBRARY) throw Error(ErrorKind::driver, failure);
    // The driver itself may lie behind it.
    looked += path_of(library).string() + " (the toolkit's stub)";
    if (stub.empty()) stub = failure;
  }
  if (!stub.empty()) throw Error(ErrorKind::driver, stub);
  throw Error(ErrorKind::driver,
              fmt::format("there is no CUDA driver on this machine. Looked for {}. Install "
                          "NVIDIA's driver{}",
                          looked, kHostDevice));
}

const Driver& Driver::get() {
  refuse_after_fork();
  if (const Driver* driver = opened.load(std::memory_order_acquire)) return *driver;
  const InLibrary opening(Library::driver);
  const std::lock_guard lock(opening_mutex);
  if (opened.load(std::memory_order_relaxed) == nullptr) {
    opened.store(open_driver().release(), std::memory_order_release);
    never_leaves(Library::driver);  // no later child can use it
  }
  return *opened.load(std::memory_order_relaxed);
}

std::string Driver::describe(CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  get_error_name(result, &name);
  get_error_string(result, &text);
  const DriverAdvice* advice = driver_advice(result);
  if (name == nullptr && advice != nullptr) name = advice->name;
  return fmt::format("{} ({}){}{}", name == nullptr ? std::to_string(result) : name,
                     text == nullptr ? "no description" : text, advice == nullptr ? "" : ": ",
                     advice == nullptr ? "" : advice->text);
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
