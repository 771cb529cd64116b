// A made-up CUDA driver, libcuda.so.1 without a GPU: just enough of the driver API for tilec's CUDA
// device, with the rules that a real driver enforces (contexts, streams, captures, shared memory),
// a record of the calls, and faults on demand. Kernels do nothing. A program that links it, or
// finds it first, gets it when it opens libcuda.so.1. Thread-safe.
//
// In a child process the variable FAKE_CUDA sets it up: "init=100 devices=0 missing=cuMemAlloc
// fail=cuDevicePrimaryCtxRetain:2 sm=199 mode=3 hold_init=/a/file", words separated by blanks, any of
// them; fail=…:46:1 lets one call succeed before the rest fail; cuInit makes the file and returns
// when it is gone.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace fake_cuda {

struct Launch {
  std::string kernel;  // the entry's name
  CUcontext context;
  CUstream stream;
  std::array<unsigned, 3> grid, block;
  unsigned shared_bytes;
  std::vector<std::byte> arguments;  // the first argument_bytes() of the first argument
};

// Two devices: 0 is an sm_90 called "Fake GPU", 1 an sm_80. Each has a primary context.
CUcontext primary(int device);
// How many there are: 1 or 2. To be called before the driver is opened.
void set_devices(int devices);
CUcontext create_context(int device);
CUstream create_stream(CUcontext context);

// Of the calling thread.
void set_current(CUcontext context);
CUcontext current();
int stack_depth();
CUstreamCaptureMode capture_mode();
void set_capture_mode(CUstreamCaptureMode mode);

// While a stream is captured, calls that a thread in another mode than RELAXED must not make fail
// and break the capture; so does work for the legacy stream, in any mode, and so does the launch of
// a kernel in a context that it is not loaded in.
void begin_capture();
// True if nothing broke it.
bool end_capture();

// Forgets the calls, launches and faults. Contexts, streams and libraries stay.
void reset();
std::vector<std::string> calls();  // names, in order
int count(const std::string& call);
std::vector<Launch> launches();
void set_argument_bytes(std::size_t bytes);
// What kernels loaded from now on have as their most threads a block, until reset().
void set_max_threads(int threads);

// The `call`'s next `times` calls, after `after` more, return `result` and do nothing.
void fail(const std::string& call, CUresult result, int times = 1, int after = 0);
// Images that hold `tag` are answered with `result`, until reset().
void reject(const std::string& tag, CUresult result);

// The next `loads` calls of cuLibraryLoadData return when all of them are inside; after 20 seconds
// they give up and fail.
void let_loads_meet(int loads);

int loaded_libraries();
// What cuKernelSetAttribute allowed the kernel of that name, on the device; 0: never set.
int max_dynamic_shared_bytes(const std::string& kernel, int device);
// Bytes of memory allocated and not freed.
std::size_t allocated_bytes();

}  // namespace fake_cuda
