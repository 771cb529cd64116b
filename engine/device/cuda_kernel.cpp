// Loading kernels, and the shared memory they may have.
#include "device/cuda_kernel.h"

#include <spdlog/fmt/fmt.h>

#include "device/cuda_context.h"

namespace tilec {
namespace {

bool is_rejection(CUresult result) {
  return result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_INVALID_IMAGE ||
         result == CUDA_ERROR_INVALID_PTX || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION ||
         result == CUDA_ERROR_JIT_COMPILER_NOT_FOUND || result == CUDA_ERROR_INVALID_SOURCE ||
         result == CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC;
}

}  // namespace

CudaKernel::~CudaKernel() {
  for (const Place* place = places_.load(); place != nullptr;) {
    delete std::exchange(place, place->next);
  }
}

CUresult CudaKernel::add_place(CUcontext context, const Driver& driver) const {
  const std::lock_guard lock(mutex_);
  const Place* const first = places_.load(std::memory_order_relaxed);
  for (const Place* place = first; place != nullptr; place = place->next) {
    if (place->context == context) return CUDA_SUCCESS;
  }
  auto place = std::make_unique<Place>(Place{context, first});
  const RelaxedCapture relaxed(driver);
  CUfunction function = nullptr;
  const CUresult result = driver.kernel_get_function(&function, kernel);
  if (result == CUDA_SUCCESS) places_.store(place.release(), std::memory_order_release);
  return result;
}

std::shared_ptr<const CudaKernel> CudaKernelTable::load(const KernelImage& image,
                                                        std::int64_t shared_bytes,
                                                        CUcontext context) {
  std::shared_ptr<Slot> slot;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Slot>& place = slots_[{image.id, image.entry}];
    if (place == nullptr) place = std::make_shared<Slot>();
    slot = place;
  }
  const std::lock_guard lock(slot->mutex);
  if (slot->kernel == nullptr) slot->kernel = load_library(image, context);
  CudaKernel& kernel = *slot->kernel;
  driver_.check(kernel.load_in(context, driver_), "cuKernelGetFunction");
  if (shared_bytes + kernel.static_bytes > most_shared_bytes_) {
    throw Error(
        ErrorKind::unsupported,
        fmt::format("{} needs {} bytes of dynamic and {} of static shared memory a block; "
                    "{} has {}",
                    image.message, shared_bytes, kernel.static_bytes, name_, most_shared_bytes_));
  }
  // Without this a block has 48 KB at most, less what it has statically.
  if (shared_bytes > kernel.shared_bytes) {
    driver_.check(
        driver_.kernel_set_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                     static_cast<int>(shared_bytes), kernel.kernel, device_),
        "cuKernelSetAttribute");
    kernel.shared_bytes = shared_bytes;
  }
  return slot->kernel;
}

std::shared_ptr<CudaKernel> CudaKernelTable::load_library(const KernelImage& image,
                                                          CUcontext context) const {
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
    expect(kernel->load_in(context, driver_), "cuKernelGetFunction");
    kernel->register_count = attribute(*kernel, CU_FUNC_ATTRIBUTE_NUM_REGS);
    kernel->static_bytes = attribute(*kernel, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    kernel->most_threads = attribute(*kernel, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  } catch (...) {
    driver_.library_unload(kernel->library);
    throw;
  }
  return kernel;
}

int CudaKernelTable::attribute(const CudaKernel& kernel, CUfunction_attribute which) const {
  int value = 0;
  driver_.check(driver_.kernel_get_attribute(&value, which, kernel.kernel, device_),
                "cuKernelGetAttribute");
  return value;
}

void CudaKernelTable::trim() {
  const std::lock_guard lock(mutex_);
  std::erase_if(slots_, [&](const auto& held) {
    if (held.second.use_count() != 1) return false;  // being loaded
    const std::lock_guard slot_lock(held.second->mutex);
    const std::shared_ptr<CudaKernel>& kernel = held.second->kernel;
    if (kernel == nullptr) return true;
    if (kernel.use_count() != 1) return false;
    driver_.check(driver_.library_unload(kernel->library), "cuLibraryUnload");
    return true;
  });
}

}  // namespace tilec
