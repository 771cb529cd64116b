// What a device can do for the engine: hold kernels, launch them, hold memory. One implementation
// each for CUDA, the host and offline. Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "tilec/device.h"
#include "tilec/kernel_template.h"

namespace tilec {

// What is loaded: an image and where in it to start.
struct KernelImage {
  std::string id;       // the same for the same bytes: one kernel stays loaded per id and entry
  std::string entry;    // the kernel's symbol
  std::string message;  // how errors call it: "gemm_regn TILE=32 …"
  std::span<const std::byte> bytes;
};

// A kernel ready to launch. Owned by its backend's table and by the plans that use it.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
  // What the device knows of it, for images that don't tell; 0: nothing.
  virtual int registers() const { return 0; }
  virtual int static_shared_bytes() const { return 0; }
  virtual int max_threads() const { return 0; }  // of a block
};

class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  virtual std::string name() const = 0;
  virtual std::string note() const { return {}; }
  virtual const Target& target() const = 0;
  virtual const DeviceFacts& facts() const = 0;
  virtual bool can_run() const = 0;
  virtual bool is_host() const { return false; }

  // Loads, or finds loaded. The kernel is ready for blocks of up to `shared_bytes` dynamic shared
  // memory. Throws ImageRejected where another image of the same kernel may serve, else Error.
  virtual std::shared_ptr<const LoadedKernel> load(const KernelImage& image,
                                                   std::int64_t shared_bytes) = 0;
  // Launches with one argument: the struct at `arguments`. On the way of run(): no locks, no look-ups.
  virtual void launch(const LoadedKernel& kernel, const LaunchShape& shape, const void* arguments,
                      Stream stream) const = 0;
  // Drops the kernels that no plan holds.
  virtual void trim() = 0;

  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* pointer) noexcept = 0;
  virtual void copy_to_device(void* device, const void* host, std::size_t bytes, Stream) = 0;
  virtual void copy_to_host(void* host, const void* device, std::size_t bytes, Stream) = 0;
  virtual void fill(void* device, unsigned char byte, std::size_t bytes, Stream) = 0;
  virtual void synchronize(Stream stream) = 0;
};

// The driver will not run this image: built for another architecture or by too new a compiler.
class ImageRejected : public Error {
 public:
  explicit ImageRejected(const std::string& message) : Error(ErrorKind::driver, message) {}
};

std::shared_ptr<DeviceBackend> cuda_backend(int ordinal);
int cuda_device_count();
std::shared_ptr<DeviceBackend> host_backend(const HostOptions& options);
std::shared_ptr<DeviceBackend> offline_backend(const Target& target, DeviceFacts facts);

}  // namespace tilec
