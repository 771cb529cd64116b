// Red zones are canary bytes, checked when the block ends; with AddressSanitizer they are poisoned.
#include "device/host_shared_memory.h"

#include <algorithm>
#include <cstring>
#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TILEC_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define TILEC_ADDRESS_SANITIZER 1
#endif
#if defined(TILEC_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

namespace tilec::host {
namespace {

constexpr int kUnit = 16;     // arrays start at multiples of it, as on a GPU
constexpr int kRedZone = 64;  // before the first array and after each
constexpr unsigned char kNan = 0xff;
constexpr unsigned char kCanary = 0xc5;
constexpr std::align_val_t kAlignment{1024};

int rounded(int bytes) {
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

void poison([[maybe_unused]] const void* start, [[maybe_unused]] std::size_t bytes) {
#if defined(TILEC_ADDRESS_SANITIZER)
  __asan_poison_memory_region(start, bytes);
#endif
}

void unpoison([[maybe_unused]] const void* start, [[maybe_unused]] std::size_t bytes) {
#if defined(TILEC_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(start, bytes);
#endif
}

}  // namespace

SharedArrays::~SharedArrays() {
  unpoison(memory_, capacity_);
  ::operator delete(memory_, kAlignment);
}

void SharedArrays::reserve(std::size_t bytes) {
  limit_ = static_cast<int>(bytes);
  // Room for as many red zones as there can be arrays.
  const std::size_t needed = bytes + (bytes / kUnit + 2) * kRedZone;
  if (needed <= capacity_) return;
  unpoison(memory_, capacity_);
  ::operator delete(memory_, kAlignment);
  memory_ = nullptr;
  capacity_ = 0;
  memory_ = static_cast<unsigned char*>(::operator new(needed, kAlignment));
  capacity_ = needed;
}

void SharedArrays::clear() {
  if (!arrays_.empty()) {
    poison(memory_,
           static_cast<std::size_t>(arrays_.back().offset + rounded(arrays_.back().bytes)));
  }
  arrays_.clear();
  given_ = 0;
  problem_.clear();
}

unsigned char* SharedArrays::array(int& used, int bytes) {
  const int offset = used + kRedZone;
  const auto known = std::find_if(arrays_.begin(), arrays_.end(),
                                  [offset](const Array& a) { return a.offset == offset; });
  const int end = arrays_.empty() ? 0 : arrays_.back().offset + rounded(arrays_.back().bytes);
  if (known != arrays_.end() ? known->bytes != bytes : used != end) {
    problem_ = "the threads ask for different shared arrays";
    return nullptr;
  }
  if (known == arrays_.end()) {
    const int unit_bytes = std::max(rounded(bytes), kUnit);
    if (bytes < 0 || unit_bytes > limit_ - given_) {
      problem_ = "shared array " + std::to_string(arrays_.size()) + " of " + std::to_string(bytes) +
                 " bytes does not fit: of the launch's " + std::to_string(limit_) +
                 " bytes of dynamic shared memory " + std::to_string(limit_ - given_) + " are left";
      return nullptr;
    }
    given_ += unit_bytes;
    arrays_.push_back({offset, bytes});
    unpoison(memory_ + used, static_cast<std::size_t>(kRedZone + rounded(bytes) + kRedZone));
    std::memset(memory_ + used, kCanary, static_cast<std::size_t>(kRedZone));
    std::memset(memory_ + offset, kNan, static_cast<std::size_t>(bytes));
    std::memset(memory_ + offset + bytes, kCanary,
                static_cast<std::size_t>(rounded(bytes) - bytes + kRedZone));
    poison(memory_ + used, static_cast<std::size_t>(kRedZone));
    poison(memory_ + offset + bytes, static_cast<std::size_t>(rounded(bytes) - bytes + kRedZone));
  }
  used = offset + rounded(bytes);
  return memory_ + offset;
}

std::string SharedArrays::overrun() const {
#if !defined(TILEC_ADDRESS_SANITIZER)
  if (arrays_.empty()) return {};
  int start = 0;  // of the red zone before `array`
  for (std::size_t i = 0; i <= arrays_.size(); ++i) {
    const int end = i < arrays_.size() ? arrays_[i].offset : start + kRedZone;
    const unsigned char* const damage =
        std::find_if(memory_ + start, memory_ + end, [](unsigned char c) { return c != kCanary; });
    const int place = static_cast<int>(damage - memory_);
    if (place < end) {
      const bool before = i == 0 || (i < arrays_.size() && end - place <= place - start);
      const Array& array = arrays_[before ? i : i - 1];
      return "shared array " + std::to_string(before ? i : i - 1) + " of " +
             std::to_string(array.bytes) + " bytes was written at its byte " +
             std::to_string(place - array.offset);
    }
    if (i < arrays_.size()) start = arrays_[i].offset + arrays_[i].bytes;
  }
#endif
  return {};
}

}  // namespace tilec::host
