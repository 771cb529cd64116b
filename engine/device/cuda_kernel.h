// The kernels that a CUDA device holds: one per image and entry, loaded once. Different images load
// side by side, as compiling PTX may take the driver seconds. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "device/backend.h"
#include "device/driver.h"

namespace tilec {

// Never unloaded by its destructor: a captured graph may still hold it.
class CudaKernel final : public LoadedKernel {
 public:
  CudaKernel() = default;
  ~CudaKernel() override;
  CudaKernel(const CudaKernel&) = delete;
  CudaKernel& operator=(const CudaKernel&) = delete;

  int registers() const override { return register_count; }
  int static_shared_bytes() const override { return static_bytes; }
  int max_threads() const override { return most_threads; }

  // Loads it into `context`, which is current, unless it is there: a launch that had to would wait,
  // and may break the capture it is part of. On the way of run(): a comparison. The result is
  // cuKernelGetFunction's.
  CUresult load_in(CUcontext context, const Driver& driver) const {
    const Place* place = places_.load(std::memory_order_acquire);
    while (place != nullptr && place->context != context) place = place->next;
    return place != nullptr ? CUDA_SUCCESS : add_place(context, driver);
  }
  // One of the few streams that it was launched into last, whose contexts have it. One that is
  // destroyed may leave its name to another context's: then the launch itself loads it.
  bool was_launched_in(Stream stream) const {
    for (const std::atomic<Stream>& known : streams_) {
      if (known.load(std::memory_order_relaxed) == stream) return true;
    }
    return false;
  }
  void note_launch_in(Stream stream) const {
    const unsigned place = noted_.fetch_add(1, std::memory_order_relaxed);
    streams_[place % streams_.size()].store(stream, std::memory_order_relaxed);
  }

  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  int register_count = 0, static_bytes = 0, most_threads = 0;
  std::int64_t shared_bytes = 0;  // dynamic, that it is ready for

 private:
  struct Place {
    CUcontext context;
    const Place* next;
  };
  CUresult add_place(CUcontext context, const Driver& driver) const;

  mutable std::atomic<const Place*> places_{nullptr};  // grows at the front
  mutable std::array<std::atomic<Stream>, 8> streams_{};
  mutable std::atomic<unsigned> noted_{0};
  mutable std::mutex mutex_;  // of adding places
};

class CudaKernelTable {
 public:
  // `name` and `most_shared_bytes` are the device's.
  CudaKernelTable(const Driver& driver, CUdevice device, std::string name,
                  std::int64_t most_shared_bytes)
      : driver_(driver),
        device_(device),
        name_(std::move(name)),
        most_shared_bytes_(most_shared_bytes) {}

  // Loads into `context`, which is current, or finds loaded. Throws as DeviceBackend::load.
  std::shared_ptr<const CudaKernel> load(const KernelImage& image, std::int64_t shared_bytes,
                                         CUcontext context);
  // Unloads what nobody holds.
  void trim();

 private:
  struct Slot {
    std::mutex mutex;  // held while the image loads
    std::shared_ptr<CudaKernel> kernel;
  };
  std::shared_ptr<CudaKernel> load_library(const KernelImage& image, CUcontext context) const;
  int attribute(const CudaKernel& kernel, CUfunction_attribute which) const;

  const Driver& driver_;
  const CUdevice device_;
  const std::string name_;
  const std::int64_t most_shared_bytes_;
  std::mutex mutex_;                                                            // of slots_
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Slot>> slots_;  // by id and entry
};

}  // namespace tilec
