// What the tests on a real GPU need of the driver beyond what tilec itself uses. Found by name at
// run time, so that the tests build and start without a driver.
#pragma once

#include <cuda.h>

#include <optional>

#include "support.h"

namespace tilec::test {

struct Gpu {
  // Empty where there is no driver or no device.
  static const std::optional<Gpu>& find();

  CUresult (*ctx_create)(CUcontext*, unsigned, CUdevice) = nullptr;
  CUresult (*ctx_destroy)(CUcontext) = nullptr;
  CUresult (*ctx_set_current)(CUcontext) = nullptr;
  CUresult (*ctx_get_current)(CUcontext*) = nullptr;
  CUresult (*ctx_synchronize)() = nullptr;
  CUresult (*primary_ctx_retain)(CUcontext*, CUdevice) = nullptr;
  CUresult (*device_count)(int*) = nullptr;
  CUresult (*stream_create)(CUstream*, unsigned) = nullptr;
  CUresult (*stream_destroy)(CUstream) = nullptr;
  CUresult (*stream_synchronize)(CUstream) = nullptr;
  CUresult (*stream_begin_capture)(CUstream, CUstreamCaptureMode) = nullptr;
  CUresult (*stream_end_capture)(CUstream, CUgraph*) = nullptr;
  CUresult (*launch_host_function)(CUstream, CUhostFn, void*) = nullptr;
  CUresult (*graph_instantiate)(CUgraphExec*, CUgraph, unsigned long long) = nullptr;
  CUresult (*graph_launch)(CUgraphExec, CUstream) = nullptr;
  CUresult (*graph_exec_destroy)(CUgraphExec) = nullptr;
  CUresult (*graph_destroy)(CUgraph) = nullptr;
  CUresult (*library_load_data)(CUlibrary*, const void*, CUjit_option*, void**, unsigned,
                                CUlibraryOption*, void**, unsigned) = nullptr;
  CUresult (*library_get_kernel)(CUkernel*, CUlibrary, const char*) = nullptr;
  CUresult (*library_unload)(CUlibrary) = nullptr;
  CUresult (*kernel_get_function)(CUfunction*, CUkernel) = nullptr;
  CUresult (*function_set_attribute)(CUfunction, CUfunction_attribute, int) = nullptr;
  CUresult (*function_get_attribute)(int*, CUfunction_attribute, CUfunction) = nullptr;
  CUresult (*occupancy)(int*, CUfunction, int, std::size_t) = nullptr;

  CUcontext current() const;
  CUcontext primary() const;  // of device 0
};

// A non-blocking stream of the current context, destroyed with it.
class TestStream {
 public:
  explicit TestStream(const Gpu& gpu);
  ~TestStream();
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  operator Stream() const { return stream_; }
  void synchronize() const;

 private:
  const Gpu& gpu_;
  CUstream stream_ = nullptr;
};

// Makes a context current on this thread, and what was current before again afterwards.
class Current {
 public:
  Current(const Gpu& gpu, CUcontext context);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Gpu& gpu_;
  CUcontext before_ = nullptr;
};

}  // namespace tilec::test
