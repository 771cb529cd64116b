// What a kernel's object for the host device and the emulator that loads it call of each other. Its
// text is part of every such object: a change raises kAbi. No includes: kernels are compiled with
// it.
#pragma once

namespace tilec::host {

inline constexpr unsigned kAbi = 1;
inline constexpr int kWarp = 32;
inline constexpr int kMaxExchange = 64;  // bytes that one lane gives in an exchange

// Where a thread stands: the intrinsic it called, and the line of the kernel that did.
struct Site {
  const char* what;
  const char* file;
  int line;
};

struct Votes {
  int threads;  // that met at the barrier
  int votes;    // of them
};

// The emulator's functions. `block` is the value of Slots::block of the calling OS thread.
struct Calls {
  // Returns when each thread of the block that still runs has called it from the same site.
  Votes (*barrier)(void* block, const Site& site, bool vote);
  // Returns when each lane in `mask` that still runs has called it so. `all` receives the lanes'
  // values, 32 times `bytes`; the result says which of them are there.
  unsigned (*exchange)(void* block, const Site& site, unsigned mask, const void* value, int bytes,
                       void* all);
  // The next array of the block's shared memory. `used` belongs to the calling thread, 0 at first.
  unsigned char* (*shared_array)(void* block, int& used, int bytes);
  // Ends the launch with this text as its error. Does not return.
  void (*fail)(void* block, const Site& site, const char* text);
};

// What an OS thread sets before a CUDA thread runs on it: three values each, but for `block`.
struct Slots {
  unsigned* thread_index;
  unsigned* block_index;
  unsigned* block_extent;
  unsigned* grid_extent;
  void** block;
};

// What an object exports, as `tilec_host_image`.
struct Image {
  unsigned abi;
  const char* entry;
  void (*connect)(const Calls* calls);  // once, before anything else
  Slots (*slots)();                     // of the calling OS thread
  void (*run)(const void* argument);    // one CUDA thread, from its start to its end
};

}  // namespace tilec::host
