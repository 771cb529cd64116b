// The CUDA driver, opened at run time: libcuda.so.1's entry points, and how its errors are told.
// Nothing links against it, so that a program starts where there is none.
#pragma once

#include <cuda.h>

#include <source_location>
#include <span>
#include <string>

#include "fork.h"
#include "tilec/error.h"

namespace tilec {

// One process has one driver: opened and initialised once, on first use, never closed.
class Driver {
 public:
  // Throws Error{driver} where there is no driver, no device, or one older than CUDA 12.0, and in a
  // forked child of a process that has used it. Asked again later, it tries again.
  static const Driver& get();

  int version = 0;  // 13000 for 13.0

  decltype(&::cuInit) init = nullptr;
  decltype(&::cuDriverGetVersion) driver_get_version = nullptr;
  decltype(&::cuGetErrorName) get_error_name = nullptr;
  decltype(&::cuGetErrorString) get_error_string = nullptr;
  decltype(&::cuDeviceGet) device_get = nullptr;
  decltype(&::cuDeviceGetCount) device_get_count = nullptr;
  decltype(&::cuDeviceGetName) device_get_name = nullptr;
  decltype(&::cuDeviceGetAttribute) device_get_attribute = nullptr;
  decltype(&::cuDevicePrimaryCtxRetain) primary_ctx_retain = nullptr;
  decltype(&::cuCtxGetCurrent) ctx_get_current = nullptr;
  decltype(&::cuCtxGetDevice) ctx_get_device = nullptr;
  decltype(&::cuCtxPushCurrent) ctx_push_current = nullptr;
  decltype(&::cuCtxPopCurrent) ctx_pop_current = nullptr;
  decltype(&::cuStreamGetCtx) stream_get_ctx = nullptr;
  decltype(&::cuStreamSynchronize) stream_synchronize = nullptr;
  decltype(&::cuThreadExchangeStreamCaptureMode) exchange_capture_mode = nullptr;
  decltype(&::cuLibraryLoadData) library_load_data = nullptr;
  decltype(&::cuLibraryUnload) library_unload = nullptr;
  decltype(&::cuLibraryGetKernel) library_get_kernel = nullptr;
  decltype(&::cuKernelGetFunction) kernel_get_function = nullptr;
  decltype(&::cuKernelGetAttribute) kernel_get_attribute = nullptr;
  decltype(&::cuKernelSetAttribute) kernel_set_attribute = nullptr;
  decltype(&::cuLaunchKernel) launch_kernel = nullptr;
  decltype(&::cuMemAlloc) mem_alloc = nullptr;
  decltype(&::cuMemFree) mem_free = nullptr;
  decltype(&::cuMemcpyHtoDAsync) memcpy_host_to_device = nullptr;
  decltype(&::cuMemcpyDtoHAsync) memcpy_device_to_host = nullptr;
  decltype(&::cuMemsetD8Async) memset_d8 = nullptr;

  // Throws Error{driver} naming the call, the result by name and what it means.
  void check(CUresult result, const char* what,
             std::source_location where = std::source_location::current()) const {
    if (result != CUDA_SUCCESS) [[unlikely]]
      fail(result, what, where);
  }
  std::string describe(CUresult result) const;  // "CUDA_ERROR_… (…)", and what to do

 private:
  [[noreturn]] void fail(CUresult result, const char* what, std::source_location where) const;
};

// The first of these names and paths that is a driver, initialised. Throws Error{driver}: where a
// driver can't be initialised, its name for that and what to do; where there is none, every place.
void* open_driver_library(std::span<const char* const> places);

[[noreturn]] void throw_forked();
// Throws Error{driver} in a child forked when the driver was open, or being opened: CUDA does not
// work there.
inline void refuse_after_fork() {
  if (forked_inside(Library::driver)) [[unlikely]]
    throw_forked();
}

}  // namespace tilec
