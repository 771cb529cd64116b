// Device: a handle to a backend.
#include "tilec/device.h"

#include <spdlog/fmt/fmt.h>

#include <charconv>

#include "device/backend.h"

namespace tilec {

Device Device::cuda(int ordinal) {
  return Device(cuda_backend(ordinal));
}
Device Device::first_cuda() {
  return cuda(0);
}
int Device::cuda_count() {
  return cuda_device_count();
}
Device Device::host(HostOptions options) {
  return Device(host_backend(options));
}
Device Device::offline(const Target& target) {
  return offline(target, typical_facts(target));
}
Device Device::offline(const Target& target, DeviceFacts facts) {
  return Device(offline_backend(target, std::move(facts)));
}

Device Device::named(const std::string& name) {
  if (name == "host") return host();
  if (name == "cuda") return first_cuda();
  constexpr std::string_view kPrefix = "cuda:";
  int ordinal = 0;
  const char* const end = name.data() + name.size();
  if (name.starts_with(kPrefix)) {
    const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, ordinal);
    if (error == std::errc() && stop == end && ordinal >= 0) return cuda(ordinal);
  }
  throw Error(
      ErrorKind::invalid_argument,
      fmt::format("'{}' is not a device; devices are host, cuda and cuda:0, cuda:1, …", name));
}

bool Device::is_host() const {
  return backend_->is_host();
}
bool Device::can_run() const {
  return backend_->can_run();
}
std::string Device::name() const {
  return backend_->name();
}
std::string Device::note() const {
  return backend_->note();
}
const Target& Device::target() const {
  return backend_->target();
}
const DeviceFacts& Device::facts() const {
  return backend_->facts();
}

void* Device::allocate(std::size_t bytes) const {
  return backend_->allocate(bytes);
}
void Device::release(void* pointer) const noexcept {
  backend_->release(pointer);
}
void Device::copy_to_device(void* device, const void* host, std::size_t bytes,
                            Stream stream) const {
  backend_->copy_to_device(device, host, bytes, stream);
}
void Device::copy_to_host(void* host, const void* device, std::size_t bytes, Stream stream) const {
  backend_->copy_to_host(host, device, bytes, stream);
}
void Device::fill(void* device, unsigned char byte, std::size_t bytes, Stream stream) const {
  backend_->fill(device, byte, bytes, stream);
}
void Device::synchronize(Stream stream) const {
  backend_->synchronize(stream);
}

}  // namespace tilec
