// Stacks and the switch between them: Boost.Context's, with the announcements that sanitizers need.
#include "device/host_fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <boost/context/detail/fcontext.hpp>
#include <new>

#include "device/host_sanitizers.h"

#if defined(TILEC_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(TILEC_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

namespace tilec::host {
namespace {

using boost::context::detail::fcontext_t;
using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

// Instrumented frames are several times as large.
#if defined(TILEC_ADDRESS_SANITIZER)
constexpr std::size_t kStackBytes = 256 * 1024;
#else
constexpr std::size_t kStackBytes = 64 * 1024;
#endif

std::size_t page_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}
std::size_t stride() {
  return kStackBytes + page_bytes();
}

// To nearest, denormals kept, no traps. The switch itself keeps each side's modes on x86-64 only.
void set_gpu_modes() {
#if defined(__x86_64__)
  constexpr unsigned kSse = 0x1f80;
  constexpr unsigned short kX87 = 0x037f;
  asm volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(kSse), "m"(kX87));
#else
  std::fesetenv(FE_DFL_ENV);
#endif
}

// --- what the sanitizers are told; nothing without them ------------------------------------------

// Before a switch to the stack given.
void leave([[maybe_unused]] void** fake_stack, [[maybe_unused]] const void* stack,
           [[maybe_unused]] std::size_t bytes) {
#if defined(TILEC_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(fake_stack, stack, bytes);
#endif
}

// After a switch back, or for the first time; tells which stack was left.
void arrive([[maybe_unused]] void* fake_stack, [[maybe_unused]] const void** stack,
            [[maybe_unused]] std::size_t* bytes) {
#if defined(TILEC_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(fake_stack, stack, bytes);
#endif
}

void* new_sanitizer_fiber() {
#if defined(TILEC_THREAD_SANITIZER)
  return __tsan_create_fiber(0);
#else
  return nullptr;
#endif
}

void drop_sanitizer_fiber([[maybe_unused]] void* fiber) {
#if defined(TILEC_THREAD_SANITIZER)
  __tsan_destroy_fiber(fiber);
#endif
}

void* current_sanitizer_fiber() {
#if defined(TILEC_THREAD_SANITIZER)
  return __tsan_get_current_fiber();
#else
  return nullptr;
#endif
}

void switch_sanitizer_fiber([[maybe_unused]] void* fiber) {
#if defined(TILEC_THREAD_SANITIZER)
  __tsan_switch_to_fiber(fiber, 0);
#endif
}

// The frames of an abandoned fiber leave their red zones behind.
void forget_frames([[maybe_unused]] std::span<std::byte> stack) {
#if defined(TILEC_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(stack.data(), stack.size());
#endif
}

}  // namespace

// --- stacks -------------------------------------------------------------------------------------

StackSlab::StackSlab() {
  void* const memory = mmap(nullptr, stride() * kStacks, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  start_ = static_cast<std::byte*>(memory);
  // A stack uses a page or two: a huge page each would be 30 times as much.
  madvise(memory, stride() * kStacks, MADV_NOHUGEPAGE);
  for (std::size_t i = 0; i < kStacks; ++i) {
    if (mprotect(start_ + i * stride(), page_bytes(), PROT_NONE) == 0) continue;
    munmap(memory, stride() * kStacks);
    throw std::bad_alloc();
  }
}

StackSlab::~StackSlab() {
  // What a sanitizer noted of this address range must not outlive it.
  forget_frames({start_, stride() * kStacks});
  munmap(start_, stride() * kStacks);
}

std::span<std::byte> StackSlab::stack(int i) const {
  return {start_ + static_cast<std::size_t>(i) * stride() + page_bytes(), kStackBytes};
}

// --- fibers -------------------------------------------------------------------------------------

struct Fiber::Entry {
  static void run(transfer_t from) {
    Fiber& self = *static_cast<Fiber*>(from.data);
    self.owner_ = from.fctx;
    arrive(nullptr, &self.owner_stack_, &self.owner_stack_size_);
    for (;;) {
      // A new fiber has its maker's modes, a used one those that its last body left.
      set_gpu_modes();
      self.body_(self.argument_);
      self.suspend();
    }
  }
};

Fiber::Fiber(std::span<std::byte> stack, int number, Body body, void* argument)
    : stack_(stack.first(stack.size() - static_cast<std::size_t>(number % 32) * 128)),
      body_(body),
      argument_(argument),
      sanitizer_fiber_(new_sanitizer_fiber()) {
  context_ = make_fcontext(stack_.data() + stack_.size(), stack_.size(), Entry::run);
}

Fiber::~Fiber() {
  drop_sanitizer_fiber(sanitizer_fiber_);
}

void Fiber::resume() {
  void* fake_stack = nullptr;
  sanitizer_owner_ = current_sanitizer_fiber();
  leave(&fake_stack, stack_.data(), stack_.size());
  switch_sanitizer_fiber(sanitizer_fiber_);
  const transfer_t from = jump_fcontext(context_, this);
  context_ = from.fctx;
  arrive(fake_stack, nullptr, nullptr);
}

void Fiber::suspend() {
  leave(&fake_stack_, owner_stack_, owner_stack_size_);
  switch_sanitizer_fiber(sanitizer_owner_);
  const transfer_t from = jump_fcontext(owner_, nullptr);
  owner_ = from.fctx;
  arrive(fake_stack_, &owner_stack_, &owner_stack_size_);
}

void Fiber::restart() {
  forget_frames(stack_);
  drop_sanitizer_fiber(sanitizer_fiber_);
  sanitizer_fiber_ = new_sanitizer_fiber();
  context_ = make_fcontext(stack_.data() + stack_.size(), stack_.size(), Entry::run);
}

}  // namespace tilec::host
