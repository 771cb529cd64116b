// A CUDA device: what it is, its context, launches, memory. Thread-safe.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "device/backend.h"
#include "device/cuda_context.h"
#include "device/cuda_kernel.h"
#include "device/driver.h"
#include "fork.h"

namespace tilec {
namespace {

// What the driver tells of a device without a context on it.
struct KnownDevice {
  CUdevice device = 0;
  bool one_of_several = false;
  std::string name = {}, note = {};
  Target target = Target::host();
  DeviceFacts facts = {};
};

int device_count(const Driver& driver) {
  int count = 0;
  driver.check(driver.device_get_count(&count), "cuDeviceGetCount");
  return count;
}

std::string note_on(int compute_mode) {
  switch (compute_mode) {
    case CU_COMPUTEMODE_PROHIBITED:
      return "its compute mode lets no process in; `nvidia-smi -c DEFAULT` as root changes that";
    case CU_COMPUTEMODE_EXCLUSIVE_PROCESS:
      return "its compute mode lets in one process at a time";
    default:
      return {};
  }
}

KnownDevice known_device(const Driver& driver, int ordinal) {
  const int count = device_count(driver);
  if (count == 0) {
    throw Error(ErrorKind::driver,
                "the CUDA driver sees no GPU. To run kernels on the CPU instead, ask for the host "
                "device: Device::host(), or --device host");
  }
  if (ordinal < 0 || ordinal >= count) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("there is no cuda:{}; this process sees {} CUDA device{} (cuda:0{})",
                            ordinal, count, count == 1 ? "" : "s",
                            count == 1 ? "" : fmt::format(" to cuda:{}", count - 1)));
  }
  KnownDevice known{.one_of_several = count > 1};
  driver.check(driver.device_get(&known.device, ordinal), "cuDeviceGet");
  char name[256] = {};
  driver.check(driver.device_get_name(name, sizeof name, known.device), "cuDeviceGetName");
  known.name = fmt::format("cuda:{} ({})", ordinal, name);
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    driver.check(driver.device_get_attribute(&value, which, known.device), "cuDeviceGetAttribute");
    return value;
  };
  known.note = note_on(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE));
  const int sm = 10 * attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                 attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  known.target = Target::parse(fmt::format("sm_{}{}", sm, sm >= 90 ? "a" : ""));
  DeviceFacts& facts = known.facts;
  facts.name = name;
  facts.target = known.target.name();
  facts.sm_count = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  facts.shared_bytes_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  facts.shared_bytes_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  facts.registers_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  facts.threads_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  facts.blocks_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  facts.l2_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  facts.clock_mhz = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE) / 1e3;
  // Two transfers a clock; the rate is in kHz and 0 where the driver no longer tells it.
  facts.memory_gb_s = 2.0 * attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) * 1e3 *
                      attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8 / 1e9;
  return known;
}

class CudaDevice final : public DeviceBackend {
 public:
  CudaDevice(const Driver& driver, KnownDevice known)
      : driver_(driver),
        launch_kernel_(driver.launch_kernel),
        several_devices_(known.one_of_several),
        device_(known.device),
        known_(std::move(known)),
        kernels_(driver, device_, known_.name, known_.facts.shared_bytes_block) {}

  std::string name() const override { return known_.name; }
  std::string note() const override { return known_.note; }
  const Target& target() const override { return known_.target; }
  const DeviceFacts& facts() const override { return known_.facts; }
  bool can_run() const override { return true; }

  std::shared_ptr<const LoadedKernel> load(const KernelImage& image,
                                           std::int64_t shared_bytes) override {
    refuse_after_fork();
    const RelaxedCapture relaxed(driver_);
    const ContextScope scope(driver_, device_, primary(), nullptr);
    return kernels_.load(image, shared_bytes, scope.context());
  }

  void launch(const LoadedKernel& kernel, const LaunchShape& shape, const void* arguments,
              Stream stream) const override {
    refuse_after_fork();
    const auto& cuda_kernel = static_cast<const CudaKernel&>(kernel);
    // A CUkernel follows its stream into whatever context that has; only on a machine of several
    // devices may that be a wrong one.
    if (several_devices_ || is_default_stream(stream)) {
      const ContextScope scope(driver_, device_, primary_of_kernels(), stream);
      driver_.check(cuda_kernel.load_in(scope.context(), driver_), "cuKernelGetFunction");
      enqueue(cuda_kernel, shape, arguments, stream);
    } else {
      if (!cuda_kernel.was_launched_in(stream)) [[unlikely]]
        load_for(cuda_kernel, stream);
      enqueue(cuda_kernel, shape, arguments, stream);
    }
  }

  void trim() override {
    refuse_after_fork();
    if (primary_.load(std::memory_order_acquire) == nullptr) return;  // nothing was loaded
    const RelaxedCapture relaxed(driver_);
    const ContextScope scope(driver_, device_, primary(), nullptr);
    kernels_.trim();
  }

  void* allocate(std::size_t bytes) override {
    refuse_after_fork();
    const RelaxedCapture relaxed(driver_);
    const ContextScope scope(driver_, device_, primary(), nullptr);
    CUdeviceptr pointer = 0;
    const CUresult result = driver_.mem_alloc(&pointer, std::max<std::size_t>(bytes, 1));
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      throw Error(ErrorKind::driver, fmt::format("cuMemAlloc of {} bytes failed: {}", bytes,
                                                 driver_.describe(result)));
    }
    driver_.check(result, "cuMemAlloc");
    return reinterpret_cast<void*>(pointer);
  }

  void release(void* pointer) noexcept override {
    if (pointer == nullptr || forked_inside(Library::driver)) return;
    try {
      const RelaxedCapture relaxed(driver_);
      const ContextScope scope(driver_, device_, primary(), nullptr);
      driver_.mem_free(reinterpret_cast<CUdeviceptr>(pointer));
    } catch (const Error&) {
      // The process is ending, or the context is lost: the memory is gone with it.
    }
  }

  void copy_to_device(void* device, const void* host, std::size_t bytes, Stream stream) override {
    in_stream(stream, "cuMemcpyHtoDAsync", bytes, [&] {
      return driver_.memcpy_host_to_device(reinterpret_cast<CUdeviceptr>(device), host, bytes,
                                           stream);
    });
  }

  void copy_to_host(void* host, const void* device, std::size_t bytes, Stream stream) override {
    in_stream(stream, "cuMemcpyDtoHAsync", bytes, [&] {
      return driver_.memcpy_device_to_host(host, reinterpret_cast<CUdeviceptr>(device), bytes,
                                           stream);
    });
  }

  void fill(void* device, unsigned char byte, std::size_t bytes, Stream stream) override {
    in_stream(stream, "cuMemsetD8Async", bytes, [&] {
      return driver_.memset_d8(reinterpret_cast<CUdeviceptr>(device), byte, bytes, stream);
    });
  }

  void synchronize(Stream stream) override {
    refuse_after_fork();
    const ContextScope scope(driver_, device_, primary(), stream);
    driver_.check(driver_.stream_synchronize(stream), "cuStreamSynchronize");
  }

 private:
  void enqueue(const CudaKernel& kernel, const LaunchShape& shape, const void* arguments,
               Stream stream) const {
    void* parameters[] = {const_cast<void*>(arguments)};
    const auto unsigned_of = [](auto value) { return static_cast<unsigned>(value); };
    driver_.check(launch_kernel_(reinterpret_cast<CUfunction>(kernel.kernel),
                                 unsigned_of(shape.grid[0]), unsigned_of(shape.grid[1]),
                                 unsigned_of(shape.grid[2]), unsigned_of(shape.block[0]),
                                 unsigned_of(shape.block[1]), unsigned_of(shape.block[2]),
                                 unsigned_of(shape.shared_bytes), stream, parameters, nullptr),
                  "cuLaunchKernel");
  }

  void load_for(const CudaKernel& kernel, Stream stream) const {
    const ContextScope scope(driver_, device_, primary_of_kernels(), stream);
    driver_.check(kernel.load_in(scope.context(), driver_), "cuKernelGetFunction");
    kernel.note_launch_in(stream);
  }

  // The device's primary context, held from the first call on that needs one.
  CUcontext primary() const {
    if (const CUcontext held = primary_.load(std::memory_order_acquire)) return held;
    const std::lock_guard lock(mutex_);
    if (primary_.load(std::memory_order_relaxed) == nullptr) {
      const RelaxedCapture relaxed(driver_);
      CUcontext retained = nullptr;
      const CUresult result = driver_.primary_ctx_retain(&retained, device_);
      if (result != CUDA_SUCCESS) {
        throw Error(ErrorKind::driver,
                    fmt::format("{} gives this process no context: cuDevicePrimaryCtxRetain "
                                "failed: {}",
                                known_.name, driver_.describe(result)));
      }
      primary_.store(retained, std::memory_order_release);
    }
    return primary_.load(std::memory_order_relaxed);
  }
  // On the way of run(): whoever has a kernel has loaded it, and so held the context.
  CUcontext primary_of_kernels() const { return primary_.load(std::memory_order_relaxed); }

  template <class Enqueue>
  void in_stream(Stream stream, const char* call, std::size_t bytes, const Enqueue& enqueue) const {
    refuse_after_fork();
    if (bytes == 0) return;
    const ContextScope scope(driver_, device_, primary(), stream);
    driver_.check(enqueue(), call);
    driver_.check(driver_.stream_synchronize(stream), "cuStreamSynchronize");
  }

  const Driver& driver_;
  const decltype(Driver::launch_kernel) launch_kernel_;  // beside what else a launch reads
  const bool several_devices_;
  const CUdevice device_;
  // Retained for the life of the process: plans may outlive all else.
  mutable std::atomic<CUcontext> primary_{nullptr};
  mutable std::mutex mutex_;  // of retaining it
  const KnownDevice known_;
  CudaKernelTable kernels_;
};

}  // namespace

std::shared_ptr<DeviceBackend> cuda_backend(int ordinal) {
  // First, so that whoever may hold the lock has opened the driver: a child forked then is refused
  // before it comes to the lock.
  const Driver& driver = Driver::get();
  // One per device and process, leaked: kernels stay loaded whatever becomes of engines and plans.
  static constinit std::mutex mutex;
  static auto& devices = *new std::map<int, std::shared_ptr<DeviceBackend>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<DeviceBackend>& device = devices[ordinal];
  if (device == nullptr) {
    device = std::make_shared<CudaDevice>(driver, known_device(driver, ordinal));
  }
  return device;
}

int cuda_device_count() {
  return device_count(Driver::get());
}

}  // namespace tilec
