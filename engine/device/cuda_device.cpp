// A CUDA device: kernels held per image and entry, launches, memory. Thread-safe.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "device/backend.h"
#include "device/cuda_context.h"
#include "device/driver.h"
#include "fork.h"

namespace tilec {
namespace {

// Never unloaded by its destructor: a captured graph may still hold it.
struct CudaKernel : LoadedKernel {
  int registers() const override { return register_count; }
  int static_shared_bytes() const override { return static_bytes; }

  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  int register_count = 0, static_bytes = 0;
  int shared_bytes = 0;  // dynamic, that it is ready for
};

bool is_rejection(CUresult result) {
  return result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_INVALID_IMAGE ||
         result == CUDA_ERROR_INVALID_PTX || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION ||
         result == CUDA_ERROR_JIT_COMPILER_NOT_FOUND || result == CUDA_ERROR_INVALID_SOURCE ||
         result == CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC;
}

class CudaDevice final : public DeviceBackend {
 public:
  explicit CudaDevice(int ordinal) : driver_(Driver::get()) {
    const RelaxedCapture relaxed(driver_);
    int count = 0;
    driver_.check(driver_.device_get_count(&count), "cuDeviceGetCount");
    if (count == 0) {
      throw Error(
          ErrorKind::driver,
          "the CUDA driver sees no GPU. To run kernels on the CPU instead, ask for the host "
          "device: Device::host(), or --device host");
    }
    if (ordinal < 0 || ordinal >= count) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("there is no cuda:{}; this process sees {} CUDA device{} (cuda:0{})",
                              ordinal, count, count == 1 ? "" : "s",
                              count == 1 ? "" : fmt::format(" to cuda:{}", count - 1)));
    }
    launch_kernel_ = driver_.launch_kernel;
    several_devices_ = count > 1;
    driver_.check(driver_.device_get(&device_, ordinal), "cuDeviceGet");
    char name[256] = {};
    driver_.check(driver_.device_get_name(name, sizeof name, device_), "cuDeviceGetName");
    name_ = fmt::format("cuda:{} ({})", ordinal, name);
    driver_.check(driver_.primary_ctx_retain(&primary_, device_), "cuDevicePrimaryCtxRetain");
    read_facts(name);
  }

  std::string name() const override { return name_; }
  const Target& target() const override { return target_; }
  const DeviceFacts& facts() const override { return facts_; }
  bool can_run() const override { return true; }

  std::shared_ptr<const LoadedKernel> load(const KernelImage& image,
                                           std::int64_t shared_bytes) override {
    refuse_after_fork();
    const RelaxedCapture relaxed(driver_);
    const ContextScope scope(driver_, device_, primary_, nullptr);
    const std::lock_guard lock(mutex_);
    std::shared_ptr<CudaKernel>& kernel = kernels_[{image.id, image.entry}];
    if (kernel == nullptr) {
      try {
        kernel = load_library(image);
      } catch (...) {
        kernels_.erase({image.id, image.entry});
        throw;
      }
    }
    allow_shared_memory(*kernel, static_cast<int>(shared_bytes));
    return kernel;
  }

  void launch(const LoadedKernel& kernel, const LaunchShape& shape, const void* arguments,
              Stream stream) const override {
    refuse_after_fork();
    // A CUkernel follows its stream into whatever context that has; only on a machine of several
    // devices may that be a wrong one.
    if (several_devices_ || is_default_stream(stream)) {
      const ContextScope scope(driver_, device_, primary_, stream);
      enqueue(kernel, shape, arguments, stream);
    } else {
      enqueue(kernel, shape, arguments, stream);
    }
  }

  void trim() override {
    refuse_after_fork();
    const RelaxedCapture relaxed(driver_);
    const ContextScope scope(driver_, device_, primary_, nullptr);
    const std::lock_guard lock(mutex_);
    std::erase_if(kernels_, [&](const auto& held) {
      if (held.second.use_count() != 1) return false;
      driver_.check(driver_.library_unload(held.second->library), "cuLibraryUnload");
      return true;
    });
  }

  void* allocate(std::size_t bytes) override {
    refuse_after_fork();
    const RelaxedCapture relaxed(driver_);
    const ContextScope scope(driver_, device_, primary_, nullptr);
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
    if (pointer == nullptr || forked_after_driver) return;
    try {
      const RelaxedCapture relaxed(driver_);
      const ContextScope scope(driver_, device_, primary_, nullptr);
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
    const ContextScope scope(driver_, device_, primary_, stream);
    driver_.check(driver_.stream_synchronize(stream), "cuStreamSynchronize");
  }

 private:
  void enqueue(const LoadedKernel& kernel, const LaunchShape& shape, const void* arguments,
               Stream stream) const {
    void* parameters[] = {const_cast<void*>(arguments)};
    const auto unsigned_of = [](auto value) { return static_cast<unsigned>(value); };
    driver_.check(
        launch_kernel_(reinterpret_cast<CUfunction>(static_cast<const CudaKernel&>(kernel).kernel),
                       unsigned_of(shape.grid[0]), unsigned_of(shape.grid[1]),
                       unsigned_of(shape.grid[2]), unsigned_of(shape.block[0]),
                       unsigned_of(shape.block[1]), unsigned_of(shape.block[2]),
                       unsigned_of(shape.shared_bytes), stream, parameters, nullptr),
        "cuLaunchKernel");
  }

  int attribute(CUdevice_attribute which) const {
    int value = 0;
    driver_.check(driver_.device_get_attribute(&value, which, device_), "cuDeviceGetAttribute");
    return value;
  }

  int attribute(const CudaKernel& kernel, CUfunction_attribute which) const {
    int value = 0;
    driver_.check(driver_.kernel_get_attribute(&value, which, kernel.kernel, device_),
                  "cuKernelGetAttribute");
    return value;
  }

  void read_facts(const char* device_name) {
    const int sm = 10 * attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                   attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    target_ = Target::parse(fmt::format("sm_{}{}", sm, sm >= 90 ? "a" : ""));
    facts_.name = device_name;
    facts_.target = target_.name();
    facts_.sm_count = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    facts_.shared_bytes_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    facts_.shared_bytes_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    facts_.registers_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
    facts_.threads_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    facts_.blocks_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
    facts_.l2_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    facts_.clock_mhz = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE) / 1e3;
    // Two transfers a clock; the rate is in kHz and 0 where the driver no longer tells it.
    facts_.memory_gb_s = 2.0 * attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) * 1e3 *
                         attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8 / 1e9;
  }

  std::shared_ptr<CudaKernel> load_library(const KernelImage& image) const {
    const auto expect = [&](CUresult result, const char* call) {
      if (!is_rejection(result)) return driver_.check(result, call);
      throw ImageRejected(fmt::format("the CUDA driver ({}.{}) does not take {} on {}: {}",
                                      driver_.version / 1000, driver_.version % 1000 / 10,
                                      image.message, name_, driver_.describe(result)));
    };
    auto kernel = std::make_shared<CudaKernel>();
    expect(driver_.library_load_data(&kernel->library, image.bytes.data(), nullptr, nullptr, 0,
                                     nullptr, nullptr, 0),
           "cuLibraryLoadData");
    try {
      expect(driver_.library_get_kernel(&kernel->kernel, kernel->library, image.entry.c_str()),
             "cuLibraryGetKernel");
      // Asking for the function loads the kernel into this context now, so that no launch waits.
      CUfunction function = nullptr;
      expect(driver_.kernel_get_function(&function, kernel->kernel), "cuKernelGetFunction");
      kernel->register_count = attribute(*kernel, CU_FUNC_ATTRIBUTE_NUM_REGS);
      kernel->static_bytes = attribute(*kernel, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    } catch (...) {
      driver_.library_unload(kernel->library);
      throw;
    }
    return kernel;
  }

  // Without it a block has 48 KB at most, less what it has statically.
  void allow_shared_memory(CudaKernel& kernel, int shared_bytes) const {
    if (shared_bytes <= kernel.shared_bytes) return;
    driver_.check(driver_.kernel_set_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                               shared_bytes, kernel.kernel, device_),
                  "cuKernelSetAttribute");
    kernel.shared_bytes = shared_bytes;
  }

  template <class Enqueue>
  void in_stream(Stream stream, const char* call, std::size_t bytes, const Enqueue& enqueue) const {
    refuse_after_fork();
    if (bytes == 0) return;
    const ContextScope scope(driver_, device_, primary_, stream);
    driver_.check(enqueue(), call);
    driver_.check(driver_.stream_synchronize(stream), "cuStreamSynchronize");
  }

  const Driver& driver_;
  decltype(Driver::launch_kernel) launch_kernel_ = nullptr;  // beside what else a launch reads
  bool several_devices_ = false;
  CUdevice device_ = 0;
  CUcontext primary_ = nullptr;  // retained for the life of the process: plans may outlive all else
  std::string name_;
  Target target_ = Target::host();
  DeviceFacts facts_;
  std::mutex mutex_;  // of kernels_
  std::map<std::pair<std::string, std::string>, std::shared_ptr<CudaKernel>> kernels_;
};

}  // namespace

std::shared_ptr<DeviceBackend> cuda_backend(int ordinal) {
  // One per device and process, leaked: kernels stay loaded whatever becomes of engines and plans.
  static std::mutex& mutex = *new std::mutex;
  static auto& devices = *new std::map<int, std::shared_ptr<DeviceBackend>>;
  refuse_after_fork();
  if (forked_inside(Library::driver)) throw_forked();
  const InLibrary here(Library::driver);
  const std::lock_guard lock(mutex);
  std::shared_ptr<DeviceBackend>& device = devices[ordinal];
  if (device == nullptr) device = std::make_shared<CudaDevice>(ordinal);
  return device;
}

}  // namespace tilec
