// A block's dynamic shared memory, handed out array by array.
#pragma once

#if defined(__CUDACC__)
extern __shared__ __align__(16) unsigned char tilec_shared_memory[];
#endif

namespace tilec {

// Every thread of the block makes the same requests in the same order. Arrays start at multiples of
// 16 bytes; on the host device red zones lie between them, and they start out as NaNs.
class SharedMemory {
 public:
  template <class T, int ROWS, int COLUMNS>
  __device__ auto array() -> T (&)[ROWS][COLUMNS] {
    constexpr int kBytes = static_cast<int>(sizeof(T)) * ROWS * COLUMNS;
#if defined(__CUDACC__)
    unsigned char* const start = tilec_shared_memory + used_;
    used_ += (kBytes + 15) / 16 * 16;
#else
    unsigned char* const start = host_shared_array(used_, kBytes);
#endif
    return *reinterpret_cast<T(*)[ROWS][COLUMNS]>(start);
  }

 private:
  int used_ = 0;
};

}  // namespace tilec
