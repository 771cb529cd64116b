// What benchmarks need of the CUDA driver beyond the engine: streams, events, graphs, bare launches
// of cubins that somebody else compiled. One thread.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tilec/device.h"
#include "tilec/kernel_template.h"

namespace tilec::bench {

// The driver's entry points that are used here. Opened when made; makes device 0's primary context
// current. Throws Error{driver} where there is none.
class Cuda {
 public:
  Cuda();
  ~Cuda();
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;

  CUstream stream() const { return stream_; }
  void synchronize() const;

  // Seconds that the device takes for what `enqueue` puts on stream(), per call, when `calls` calls
  // of it are replayed as one graph. `enqueue` is given 0, 1, … calls-1.
  class Graph {
   public:
    Graph(const Cuda& cuda, int calls, const std::function<void(int)>& enqueue);
    ~Graph();
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;
    double replay() const;

   private:
    const Cuda& cuda_;
    int calls_;
    CUgraphExec executable_ = nullptr;
    CUevent start_ = nullptr, stop_ = nullptr;
  };

  // A kernel of a cubin, to be launched with nothing in between.
  CUfunction load(const std::vector<std::byte>& cubin, const std::string& entry,
                  int shared_bytes) const;
  void launch(CUfunction function, const LaunchShape& shape, void* arguments) const {
    void* parameters[] = {arguments};
    const auto u = [](auto value) { return static_cast<unsigned>(value); };
    check(launch_kernel_(function, u(shape.grid[0]), u(shape.grid[1]), u(shape.grid[2]),
                         u(shape.block[0]), u(shape.block[1]), u(shape.block[2]),
                         u(shape.shared_bytes), stream_, parameters, nullptr),
          "cuLaunchKernel");
  }

 private:
  static void check(CUresult result, const char* what);

  CUstream stream_ = nullptr;
  decltype(&::cuLaunchKernel) launch_kernel_ = nullptr;
  decltype(&::cuStreamSynchronize) stream_synchronize_ = nullptr;
  decltype(&::cuStreamDestroy) stream_destroy_ = nullptr;
  decltype(&::cuStreamBeginCapture) begin_capture_ = nullptr;
  decltype(&::cuStreamEndCapture) end_capture_ = nullptr;
  decltype(&::cuGraphInstantiateWithFlags) instantiate_ = nullptr;
  decltype(&::cuGraphLaunch) graph_launch_ = nullptr;
  decltype(&::cuGraphDestroy) graph_destroy_ = nullptr;
  decltype(&::cuGraphExecDestroy) executable_destroy_ = nullptr;
  decltype(&::cuEventCreate) event_create_ = nullptr;
  decltype(&::cuEventDestroy) event_destroy_ = nullptr;
  decltype(&::cuEventRecord) event_record_ = nullptr;
  decltype(&::cuEventSynchronize) event_synchronize_ = nullptr;
  decltype(&::cuEventElapsedTime) event_elapsed_ = nullptr;
  decltype(&::cuLibraryLoadData) library_load_ = nullptr;
  decltype(&::cuLibraryGetKernel) library_get_kernel_ = nullptr;
  decltype(&::cuKernelGetFunction) kernel_get_function_ = nullptr;
  decltype(&::cuFuncSetAttribute) function_set_attribute_ = nullptr;
};

}  // namespace tilec::bench
