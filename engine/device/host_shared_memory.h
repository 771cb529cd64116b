// One block's dynamic shared memory on the host device: arrays that start out as NaNs, with red
// zones between them. Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tilec::host {

class SharedArrays {
 public:
  ~SharedArrays();
  SharedArrays() = default;
  SharedArrays(const SharedArrays&) = delete;
  SharedArrays& operator=(const SharedArrays&) = delete;

  // For blocks that may have `bytes` in all. Throws std::bad_alloc.
  void reserve(std::size_t bytes);
  // Forgets the arrays of the block before.
  void clear();

  // The array of `bytes` that begins where a thread's `used` points; moves `used` on. Returns null
  // with the reason in problem() if there is no room or another thread asked for another size here.
  unsigned char* array(int& used, int bytes);
  const std::string& problem() const { return problem_; }

  // Which array was written beyond its ends, in words; empty if none was. AddressSanitizer, where
  // it is on, reports such a write itself, when it happens.
  std::string overrun() const;

 private:
  struct Array {
    int offset;
    int bytes;
  };

  unsigned char* memory_ = nullptr;
  std::size_t capacity_ = 0;  // of memory_
  int limit_ = 0;             // bytes that a block may have
  int given_ = 0;             // of them
  std::vector<Array> arrays_;
  std::string problem_;
};

}  // namespace tilec::host
