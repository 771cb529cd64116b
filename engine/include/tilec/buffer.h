// DeviceBuffer: owned device memory, for examples and tests. `run` takes any device pointer.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tilec/device.h"

namespace tilec {

// Owns `count` elements of device memory. Move-only; not thread-safe.
template <class T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(const Device& device, std::size_t count)
      : owner_(device), data_(static_cast<T*>(device.allocate(count * sizeof(T)))), count_(count) {}
  DeviceBuffer(const Device& device, std::span<const T> values)
      : DeviceBuffer(device, values.size()) {
    device.copy_to_device(data_, values.data(), values.size_bytes());
  }
  ~DeviceBuffer() {
    if (data_ != nullptr) owner_->release(data_);
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    DeviceBuffer moved(std::move(other));
    swap(moved);
    return *this;
  }

  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  std::vector<T> to_host() const {
    std::vector<T> values(count_);
    if (count_ != 0) owner_->copy_to_host(values.data(), data_, count_ * sizeof(T));
    return values;
  }

 private:
  void swap(DeviceBuffer& other) noexcept {
    owner_.swap(other.owner_);
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
  }

  std::optional<Device> owner_;
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace tilec
