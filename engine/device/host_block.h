// Runs one block of CUDA threads after the other, a fiber each. Belongs to one OS thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/host_fiber.h"
#include "device/host_kernel.h"
#include "device/host_shared_memory.h"
#include "tilec/device.h"

namespace tilec::host {

// What the blocks of one launch share.
struct Launch {
  const HostKernel& kernel;
  const LaunchShape& shape;
  const void* argument;
  HostOrder order;
  std::uint64_t seed;
};

class BlockRunner {
 public:
  static constexpr int kMaxThreads = 1024;  // of a block

  BlockRunner() = default;
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  // Before the blocks of a launch, on the OS thread that will run them. Throws std::bad_alloc where
  // the system gives no more stacks; what it had it keeps.
  void prepare(const Launch& launch);
  // Runs the block of that index, x fastest, to its end. Returns what went wrong, in words; or
  // nothing.
  std::string run(std::uint64_t index);

  static const Calls& calls();

 private:
  enum class State : std::uint8_t { ready, at_barrier, in_exchange, exited };

  struct Thread {
    int number = 0;
    State state = State::exited;
    unsigned index[3] = {};
    Site site{};
    // In an exchange: what it gives and where it wants the others'.
    unsigned mask = 0;
    int bytes = 0;
    const void* value = nullptr;
    void* all = nullptr;
    unsigned present = 0;
    std::unique_ptr<Fiber> fiber;
  };

  struct Warp {
    unsigned live;     // lanes that have not returned
    unsigned waiting;  // lanes in an exchange
  };

  // The intrinsics, on the fibers.
  Votes barrier(const Site& site, bool vote);
  unsigned exchange(const Site& site, unsigned mask, const void* value, int bytes, void* all);
  unsigned char* shared_array(int& used, int bytes);
  [[noreturn]] void fail(const Site& site, const char* text);
  [[noreturn]] void abandon();
  void run_thread();
  void leave(Thread& thread);
  bool complete_exchange(Warp& warp, int first, unsigned mask);

  // The scheduler, on the OS thread.
  void add_threads();
  void begin(std::uint64_t index);
  void run_phase();
  void run_random_phase();
  bool run_passes(const int* first, const int* last);
  void arrange_warps();
  void resume(Thread& thread);
  bool open_barrier();
  std::string stuck() const;
  std::string place_of(const Thread& thread) const;
  void recover();
  std::uint64_t random();

  const Launch* launch_ = nullptr;
  Slots slots_{};
  std::span<std::byte> thread_storage_;
  SharedArrays shared_;
  std::vector<std::unique_ptr<StackSlab>> slabs_;
  std::vector<Thread> threads_;  // the most of any block so far; the first `count_` are in use
  int count_ = 0;
  std::vector<Warp> warps_;
  std::vector<int> order_;     // the threads in the order of running
  std::vector<int> released_;  // by an exchange, since the scheduler last looked
  Thread* current_ = nullptr;
  int live_ = 0;
  int at_barrier_ = 0;
  int votes_ = 0;
  Votes result_{};  // of the barrier that opened last
  std::uint64_t random_state_ = 0;
  std::string error_;
};

}  // namespace tilec::host
