// Streams, with no CUDA header: tilec::Stream is CUstream, and so cudaStream_t.
#pragma once

struct CUstream_st;

namespace tilec {

using Stream = CUstream_st*;

// What `run` uses where no stream is named: the program's own choice, as for CUDA's libraries.
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
static inline Stream default_stream() {
  return reinterpret_cast<Stream>(0x2);
}
#else
static inline Stream default_stream() {
  return nullptr;
}
#endif

}  // namespace tilec
