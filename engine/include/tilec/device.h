// Where kernels run. A Device is a cheap handle; copies refer to the same device. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tilec/error.h"
#include "tilec/stream.h"
#include "tilec/target.h"

namespace tilec {

class DeviceBackend;

// The order in which the host device lets the threads of a block run between barriers. A kernel
// with a missing barrier is wrong under at least one of them.
enum class HostOrder : std::uint8_t { in_order, reversed, random, warp_greedy };

struct HostOptions {
  HostOrder order = HostOrder::in_order;
  // Of random; and of warp_greedy, where 0 is the warps in order, 1 reversed, any other at random.
  std::uint64_t seed = 0;
  int threads = 0;  // OS threads that run blocks, 16 of the process at most; 0: one per core
};

class TILEC_EXPORT Device {
 public:
  // The CUDA device of that driver ordinal (CUDA_VISIBLE_DEVICES applies). Opens the driver, and
  // takes no context before something needs one: loading a kernel, memory, a stream. Throws
  // Error{driver} without a driver, Error{invalid_argument} for an ordinal that isn't there.
  static Device cuda(int ordinal);
  // How many of them this process sees. Throws Error{driver} without a driver.
  static int cuda_count();
  // Device 0. Throws Error{driver}, saying how to ask for the host device, where there is none.
  static Device first_cuda();
  // Runs the same kernel source on the CPU: for correctness, not speed. Its pointers are ordinary
  // host pointers and `run` returns when the work is done. Compiles with the machine's C++
  // compiler. Throws Error{unsupported} where tilec was built without it.
  static Device host(HostOptions options = {});
  // No device at all: plans are compiled, cached and described for `target`, and can't be run. For
  // a target that NVRTC doesn't know, planning throws Error{unsupported}: nothing stands in for it.
  static Device offline(const Target& target);
  static Device offline(const Target& target, DeviceFacts facts);
  // "cuda:0", "cuda", "host". Throws Error{invalid_argument} for another name.
  static Device named(const std::string& name);

  bool is_host() const;
  bool can_run() const;
  std::string name() const;  // "cuda:0 (NVIDIA H200)", "host", "offline sm_90a"
  std::string note() const;  // what may keep this process from using it, in words; mostly empty
  const Target& target() const;
  const DeviceFacts& facts() const;

  // Memory for examples and tests. `allocate` throws Error{driver} where there is not enough;
  // freeing never throws. Copies and `fill` are ordered on `stream` and have finished on return.
  void* allocate(std::size_t bytes) const;
  void release(void* pointer) const noexcept;
  void copy_to_device(void* device, const void* host, std::size_t bytes,
                      Stream stream = default_stream()) const;
  void copy_to_host(void* host, const void* device, std::size_t bytes,
                    Stream stream = default_stream()) const;
  void fill(void* device, unsigned char byte, std::size_t bytes,
            Stream stream = default_stream()) const;
  // Waits for `stream`; reports the faults of what ran on it as Error{driver}.
  void synchronize(Stream stream = default_stream()) const;

  const std::shared_ptr<DeviceBackend>& backend() const { return backend_; }

 private:
  explicit Device(std::shared_ptr<DeviceBackend> backend) : backend_(std::move(backend)) {}
  std::shared_ptr<DeviceBackend> backend_;
};

}  // namespace tilec
