// Fibers: the CUDA threads of the host device. A fiber and its owner switch to each other; switches
// are announced to AddressSanitizer and ThreadSanitizer. Bodies run in a GPU's floating-point modes,
// whatever the owner's are. Not thread-safe: one OS thread at a time resumes a fiber, not always the
// same one.
#pragma once

#include <cfenv>
#include <cstddef>
#include <span>

namespace tilec::host {

// Address space for a few stacks, each above an inaccessible page: two mappings a stack.
class StackSlab {
 public:
  static constexpr int kStacks = 32;

  // Throws std::bad_alloc, also where the system allows no more mappings.
  StackSlab();
  ~StackSlab();
  StackSlab(const StackSlab&) = delete;
  StackSlab& operator=(const StackSlab&) = delete;

  std::span<std::byte> stack(int i) const;

 private:
  std::byte* start_;
};

// Keeps an OS thread's floating-point modes and flags as they are, whatever fibers do meanwhile.
class KeptFloatingPoint {
 public:
  KeptFloatingPoint() { std::feholdexcept(&environment_); }
  ~KeptFloatingPoint() { std::fesetenv(&environment_); }
  KeptFloatingPoint(const KeptFloatingPoint&) = delete;
  KeptFloatingPoint& operator=(const KeptFloatingPoint&) = delete;

 private:
  std::fenv_t environment_;
};

// Runs body(argument), again and again: each time body returns, the fiber suspends itself.
class Fiber {
 public:
  using Body = void (*)(void* argument);

  // `number` spreads the stacks' upper ends over the CPU's cache sets.
  Fiber(std::span<std::byte> stack, int number, Body body, void* argument);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // By the owner: runs the fiber until it suspends.
  void resume();
  // Within the fiber: back to the owner.
  void suspend();
  // By the owner: forgets where the fiber was; it starts with body again. Nothing on its stack is
  // destroyed.
  void restart();

 private:
  struct Entry;

  std::span<std::byte> stack_;
  Body body_;
  void* argument_;
  void* context_ = nullptr;  // of the fiber, while the owner runs
  void* owner_ = nullptr;    // of the owner, while the fiber runs
  // What the sanitizers want back: the owner's stack, both sides' fake stacks, both sides' fibers.
  const void* owner_stack_ = nullptr;
  std::size_t owner_stack_size_ = 0;
  void* fake_stack_ = nullptr;
  void* sanitizer_fiber_ = nullptr;
  void* sanitizer_owner_ = nullptr;
};

}  // namespace tilec::host
