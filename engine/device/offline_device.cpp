// A device that isn't there: a target to compile for, and facts to choose by.
#include <spdlog/fmt/fmt.h>

#include "device/backend.h"

namespace tilec {
namespace {

class OfflineDevice final : public DeviceBackend {
 public:
  OfflineDevice(const Target& target, DeviceFacts facts)
      : target_(target), facts_(std::move(facts)) {}

  std::string name() const override { return "offline " + target_.name(); }
  const Target& target() const override { return target_; }
  const DeviceFacts& facts() const override { return facts_; }
  bool can_run() const override { return false; }

  std::shared_ptr<const LoadedKernel> load(const KernelImage&, std::int64_t) override {
    return nullptr;
  }
  void launch(const LoadedKernel&, const LaunchShape&, const void*, Stream) const override {
    refuse();
  }
  void trim() override {}
  void* allocate(std::size_t) override { refuse(); }
  void release(void*) noexcept override {}
  void copy_to_device(void*, const void*, std::size_t, Stream) override { refuse(); }
  void copy_to_host(void*, const void*, std::size_t, Stream) override { refuse(); }
  void fill(void*, unsigned char, std::size_t, Stream) override { refuse(); }
  void synchronize(Stream) override { refuse(); }

 private:
  [[noreturn]] void refuse() const {
    throw Error(ErrorKind::unsupported,
                fmt::format("{} is a target to compile for, not a device to run on; plan with "
                            "Device::cuda(i) or Device::host() to run",
                            name()));
  }

  Target target_;
  DeviceFacts facts_;
};

}  // namespace

std::shared_ptr<DeviceBackend> offline_backend(const Target& target, DeviceFacts facts) {
  return std::make_shared<OfflineDevice>(target, std::move(facts));
}

}  // namespace tilec
