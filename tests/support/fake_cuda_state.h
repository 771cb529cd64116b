// What the made-up driver holds. Its own two files include this, nobody else.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "tests/support/fake_cuda.h"

// The driver's own types, which only the driver knows.
struct CUctx_st {
  int device;
};
struct CUstream_st {
  CUcontext context;
};
struct CUlib_st {
  std::string tag;
  std::map<std::string, std::unique_ptr<CUkern_st>> kernels;
};
struct CUkern_st {
  CUlibrary library;
  std::string name;
  std::map<int, int> max_dynamic_shared;  // by device
  std::set<CUcontext> loaded;             // where cuKernelGetFunction or a launch loaded it
};

namespace fake_cuda {

constexpr int kDevices = 2;
constexpr int kSharedByDefault = 48 * 1024;
constexpr int kSharedAtMost = 227 * 1024;
constexpr int kSharedStatic = 1024;  // of every kernel

struct Fault {
  std::string call;
  CUresult result;
  int times, after;
};

struct State {
  std::mutex mutex;
  bool initialised = false;
  CUresult init_result = CUDA_SUCCESS;
  int devices = kDevices;
  std::set<std::string> missing;  // entry points
  std::array<CUctx_st, kDevices> primaries{{{0}, {1}}};
  std::vector<std::unique_ptr<CUctx_st>> contexts;
  std::vector<std::unique_ptr<CUstream_st>> streams;
  std::map<CUlibrary, std::unique_ptr<CUlib_st>> libraries;
  std::map<CUdeviceptr, std::size_t> memory;
  std::vector<std::string> calls;
  std::vector<Launch> launches;
  std::vector<Fault> faults;
  std::map<std::string, CUresult> rejected;
  std::size_t argument_bytes = 0;
  int max_threads = 1024;
  std::string hold_init;  // while this file, which it makes, is there, cuInit does not return
  int sm = 0;             // of every device; 0: 90 and 80
  CUcomputemode compute_mode = CU_COMPUTEMODE_DEFAULT;
  // Loads that meet: how many shall be inside at once, and how many came.
  int loads_to_meet = 0, loads_inside = 0;
  std::condition_variable loads_met;
  bool capturing = false, capture_broken = false;
};

inline State& state() {
  static State& state = *new State;
  return state;
}

inline thread_local std::vector<CUcontext> stack;
inline thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

inline CUcontext top() {
  return stack.empty() ? nullptr : stack.back();
}

}  // namespace fake_cuda
