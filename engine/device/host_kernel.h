// A kernel's object, loaded into this process. Immutable once made; unloads itself.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "device/backend.h"
#include "device/host_abi.h"

namespace tilec::host {

class HostKernel : public LoadedKernel {
 public:
  // Throws ImageRejected where this is no object that this machine and this tilec can run.
  HostKernel(const KernelImage& image, const Calls& calls);
  ~HostKernel() override;
  HostKernel(const HostKernel&) = delete;
  HostKernel& operator=(const HostKernel&) = delete;

  const std::string& message() const { return message_; }  // how errors call it
  void run(const void* argument) const { image_->run(argument); }
  Slots slots() const { return image_->slots(); }
  // The calling OS thread's copy of the object's thread-local variables: the slots and the kernel's
  // static shared memory.
  std::span<std::byte> thread_storage() const;

 private:
  std::string message_;
  std::size_t thread_storage_bytes_ = 0;
  int descriptor_ = -1;
  void* library_ = nullptr;
  const Image* image_ = nullptr;
};

}  // namespace tilec::host
