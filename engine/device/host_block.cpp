// Two sides of one block: the intrinsics, which its fibers call, and the scheduler, which resumes
// them.
#include "device/host_block.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

namespace tilec::host {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15u;

// splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
std::uint64_t mixed(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

bool same_site(const Site& a, const Site& b) {
  const auto same = [](const char* x, const char* y) { return x == y || std::strcmp(x, y) == 0; };
  return a.line == b.line && same(a.what, b.what) && same(a.file, b.file);
}

std::string triple(const unsigned* values) {
  return "(" + std::to_string(values[0]) + ", " + std::to_string(values[1]) + ", " +
         std::to_string(values[2]) + ")";
}

std::string describe(const Site& site) {
  std::string text = site.what;
  if (site.line != 0) text += " (" + std::string(site.file) + ":" + std::to_string(site.line) + ")";
  return text;
}

}  // namespace

const Calls& BlockRunner::calls() {
  static constexpr Calls kCalls{
      .barrier = [](void* block, const Site& site,
                    bool vote) { return static_cast<BlockRunner*>(block)->barrier(site, vote); },
      .exchange =
          [](void* block, const Site& site, unsigned mask, const void* value, int bytes,
             void* all) {
            return static_cast<BlockRunner*>(block)->exchange(site, mask, value, bytes, all);
          },
      .shared_array =
          [](void* block, int& used, int bytes) {
            return static_cast<BlockRunner*>(block)->shared_array(used, bytes);
          },
      .fail = [](void* block, const Site& site,
                 const char* text) { static_cast<BlockRunner*>(block)->fail(site, text); },
  };
  return kCalls;
}

// --- the intrinsics, called on fibers -----------------------------------------------------------

Votes BlockRunner::barrier(const Site& site, bool vote) {
  Thread& self = *current_;
  self.site = site;
  self.state = State::at_barrier;
  ++at_barrier_;
  votes_ += vote ? 1 : 0;
  self.fiber->suspend();
  return result_;
}

unsigned BlockRunner::exchange(const Site& site, unsigned mask, const void* value, int bytes,
                               void* all) {
  Thread& self = *current_;
  Warp& warp = warps_[static_cast<std::size_t>(self.number / kWarp)];
  const unsigned lane = 1u << (self.number % kWarp);
  if ((mask & lane) == 0) fail(site, "the calling lane is not in the mask");
  if (bytes > kMaxExchange) fail(site, "the value is too large for an exchange");
  self.site = site;
  self.mask = mask;
  self.value = value;
  self.bytes = bytes;
  self.all = all;
  self.state = State::in_exchange;
  warp.waiting |= lane;
  // The last lane to arrive does the exchange and goes on.
  if (!complete_exchange(warp, self.number / kWarp * kWarp, mask)) self.fiber->suspend();
  return self.present;
}

unsigned char* BlockRunner::shared_array(int& used, int bytes) {
  unsigned char* const array = shared_.array(used, bytes);
  if (array == nullptr) {
    error_ = "thread " + triple(current_->index) + ": " + shared_.problem();
    abandon();
  }
  return array;
}

void BlockRunner::fail(const Site& site, const char* text) {
  error_ = "thread " + triple(current_->index) + ", " + describe(site) + ": " + text;
  abandon();
}

// The block ends here, with error_. The fiber is never resumed, so that no exception crosses the
// kernel's frames: nothing in the frames that lead here may need to be destroyed.
void BlockRunner::abandon() {
  for (;;) current_->fiber->suspend();
}

void BlockRunner::run_thread() {
  Thread& self = *current_;
  launch_->kernel.run(launch_->argument);
  leave(self);
}

void BlockRunner::leave(Thread& thread) {
  Warp& warp = warps_[static_cast<std::size_t>(thread.number / kWarp)];
  thread.state = State::exited;
  warp.live &= ~(1u << (thread.number % kWarp));
  --live_;
  // Lanes that waited for this one wait no longer.
  const int first = thread.number / kWarp * kWarp;
  for (int lane = 0; lane < kWarp && warp.waiting != 0; ++lane) {
    if ((warp.waiting >> lane & 1u) == 0) continue;
    complete_exchange(warp, first, threads_[static_cast<std::size_t>(first + lane)].mask);
  }
}

// Does the exchange of `mask` in the warp that starts at thread `first`, once all its lanes wait
// for it. Returns whether it did.
bool BlockRunner::complete_exchange(Warp& warp, int first, unsigned mask) {
  const unsigned members = mask & warp.live;
  if ((warp.waiting & members) != members) return false;
  unsigned char all[kWarp * kMaxExchange];
  std::memset(all, 0xff, sizeof all);
  const Thread* one = nullptr;
  for (int lane = 0; lane < kWarp; ++lane) {
    if ((members >> lane & 1u) == 0) continue;
    const Thread& thread = threads_[static_cast<std::size_t>(first + lane)];
    if (one == nullptr) one = &thread;
    if (thread.mask != mask || thread.bytes != one->bytes || !same_site(thread.site, one->site)) {
      return false;
    }
    std::memcpy(all + lane * thread.bytes, thread.value, static_cast<std::size_t>(thread.bytes));
  }
  for (int lane = 0; lane < kWarp; ++lane) {
    if ((members >> lane & 1u) == 0) continue;
    Thread& thread = threads_[static_cast<std::size_t>(first + lane)];
    std::memcpy(thread.all, all, static_cast<std::size_t>(kWarp * thread.bytes));
    thread.present = members;
    thread.state = State::ready;
    released_.push_back(thread.number);
  }
  warp.waiting &= ~members;
  return true;
}

// --- the scheduler, on the OS thread ------------------------------------------------------------

void BlockRunner::prepare(const Launch& launch) {
  launch_ = &launch;
  const std::array<int, 3>& extent = launch.shape.block;
  count_ = static_cast<int>(launch.shape.threads());
  add_threads();
  for (int i = 0; i < count_; ++i) {
    Thread& thread = threads_[static_cast<std::size_t>(i)];
    thread.index[0] = static_cast<unsigned>(i % extent[0]);
    thread.index[1] = static_cast<unsigned>(i / extent[0] % extent[1]);
    thread.index[2] = static_cast<unsigned>(i / extent[0] / extent[1]);
  }
  warps_.resize(static_cast<std::size_t>((count_ + kWarp - 1) / kWarp));
  order_.resize(static_cast<std::size_t>(count_));
  std::iota(order_.begin(), order_.end(), 0);
  if (launch.order == HostOrder::reversed) std::reverse(order_.begin(), order_.end());
  released_.reserve(static_cast<std::size_t>(2 * count_));
  shared_.reserve(static_cast<std::size_t>(launch.shape.shared_bytes));
  slots_ = launch.kernel.slots();
  thread_storage_ = launch.kernel.thread_storage();
}

void BlockRunner::add_threads() {
  // Which of its threads a fiber is, it learns each time it starts: the vector may move them.
  const auto body = [](void* block) { static_cast<BlockRunner*>(block)->run_thread(); };
  while (threads_.size() < static_cast<std::size_t>(count_)) {
    const int number = static_cast<int>(threads_.size());
    const auto slab = static_cast<std::size_t>(number / StackSlab::kStacks);
    if (slab == slabs_.size()) slabs_.push_back(std::make_unique<StackSlab>());
    Thread thread;
    thread.number = number;
    thread.fiber = std::make_unique<Fiber>(slabs_[slab]->stack(number % StackSlab::kStacks), number,
                                           body, this);
    threads_.push_back(std::move(thread));
  }
}

std::string BlockRunner::run(std::uint64_t index) {
  begin(index);
  while (live_ > 0) {
    run_phase();
    if (!error_.empty() || live_ == 0) break;
    if (!open_barrier()) error_ = stuck();
  }
  if (error_.empty()) error_ = shared_.overrun();
  if (error_.empty()) return {};
  recover();
  return "block " + triple(slots_.block_index) + ": " + std::exchange(error_, {});
}

void BlockRunner::begin(std::uint64_t index) {
  const std::array<std::int64_t, 3>& grid = launch_->shape.grid;
  // Static shared memory starts out as NaNs too. The slots are among it.
  if (!thread_storage_.empty()) {
    std::memset(thread_storage_.data(), 0xff, thread_storage_.size());
  }
  for (std::size_t i = 0; i < 3; ++i) {
    slots_.block_extent[i] = static_cast<unsigned>(launch_->shape.block[i]);
    slots_.grid_extent[i] = static_cast<unsigned>(grid[i]);
  }
  const auto x = static_cast<std::uint64_t>(grid[0]), y = static_cast<std::uint64_t>(grid[1]);
  slots_.block_index[0] = static_cast<unsigned>(index % x);
  slots_.block_index[1] = static_cast<unsigned>(index / x % y);
  slots_.block_index[2] = static_cast<unsigned>(index / x / y);
  *slots_.block = this;
  for (int i = 0; i < count_; ++i) threads_[static_cast<std::size_t>(i)].state = State::ready;
  for (std::size_t i = 0; i < warps_.size(); ++i) {
    const int lanes = std::min(kWarp, count_ - static_cast<int>(i) * kWarp);
    warps_[i] = {.live = lanes == kWarp ? ~0u : (1u << lanes) - 1u, .waiting = 0};
  }
  shared_.clear();
  live_ = count_;
  at_barrier_ = 0;
  votes_ = 0;
  random_state_ = mixed(launch_->seed + mixed(index + kGolden));
}

// Runs every thread until each has returned or waits for others.
void BlockRunner::run_phase() {
  const int* const order = order_.data();
  switch (launch_->order) {
    case HostOrder::in_order:
    case HostOrder::reversed:
      while (run_passes(order, order + count_)) {
      }
      break;
    case HostOrder::random:
      run_random_phase();
      break;
    case HostOrder::warp_greedy:
      // Each warp to the block's next barrier, before the next warp starts.
      arrange_warps();
      for (int first = 0, end = 0; first < count_; first = end) {
        const int warp = order[first] / kWarp;
        while (end < count_ && order[end] / kWarp == warp) ++end;
        while (error_.empty() && run_passes(order + first, order + end)) {
        }
      }
      break;
  }
}

// Resumes each ready thread of the range once. Returns whether it is worth another pass.
bool BlockRunner::run_passes(const int* first, const int* last) {
  released_.clear();
  for (const int* number = first; number != last; ++number) {
    Thread& thread = threads_[static_cast<std::size_t>(*number)];
    if (thread.state == State::ready) resume(thread);
    if (!error_.empty()) return false;
  }
  return !released_.empty();
}

void BlockRunner::run_random_phase() {
  std::vector<int>& waiting = order_;
  waiting.clear();
  for (int i = 0; i < count_; ++i) {
    if (threads_[static_cast<std::size_t>(i)].state == State::ready) waiting.push_back(i);
  }
  while (!waiting.empty() && error_.empty()) {
    std::swap(waiting[random() % waiting.size()], waiting.back());
    Thread& thread = threads_[static_cast<std::size_t>(waiting.back())];
    waiting.pop_back();
    released_.clear();
    resume(thread);
    for (const int number : released_) {
      // The lane that completed the exchange has gone on already.
      if (number != thread.number) waiting.push_back(number);
    }
  }
}

// Seed 0: warps and lanes in order; 1: both reversed; else warps at random, lanes either way.
void BlockRunner::arrange_warps() {
  if (launch_->seed == 0) return;
  std::vector<int> warps(warps_.size());
  std::iota(warps.begin(), warps.end(), 0);
  std::reverse(warps.begin(), warps.end());
  if (launch_->seed != 1) {
    for (std::size_t i = warps.size(); i > 1; --i) std::swap(warps[i - 1], warps[random() % i]);
  }
  order_.clear();
  for (const int warp : warps) {
    const int first = warp * kWarp, end = std::min(first + kWarp, count_);
    for (int i = first; i < end; ++i) order_.push_back(i);
    if (launch_->seed == 1 || random() % 2 == 0) {
      std::reverse(order_.end() - (end - first), order_.end());
    }
  }
}

void BlockRunner::resume(Thread& thread) {
  for (std::size_t i = 0; i < 3; ++i) slots_.thread_index[i] = thread.index[i];
  current_ = &thread;
  thread.fiber->resume();
}

// Lets the threads go on if all that still run are at the same barrier.
bool BlockRunner::open_barrier() {
  if (at_barrier_ != live_) return false;
  const Thread* one = nullptr;
  for (int i = 0; i < count_; ++i) {
    Thread& thread = threads_[static_cast<std::size_t>(i)];
    if (thread.state != State::at_barrier) continue;
    if (one == nullptr) one = &thread;
    if (!same_site(one->site, thread.site)) return false;
  }
  for (int i = 0; i < count_; ++i) {
    Thread& thread = threads_[static_cast<std::size_t>(i)];
    if (thread.state == State::at_barrier) thread.state = State::ready;
  }
  result_ = {.threads = live_, .votes = votes_};
  at_barrier_ = 0;
  votes_ = 0;
  return true;
}

// Who waits where.
std::string BlockRunner::stuck() const {
  struct Group {
    int threads = 0;
    const Thread* first = nullptr;
  };
  std::map<std::string, Group> groups;
  for (int i = 0; i < count_; ++i) {
    const Thread& thread = threads_[static_cast<std::size_t>(i)];
    if (thread.state == State::exited) continue;
    Group& group = groups[place_of(thread)];
    if (group.threads++ == 0) group.first = &thread;
  }
  std::string text = "its threads wait for each other forever: ";
  const char* separator = "";
  for (const auto& [place, group] : groups) {
    text += separator + std::to_string(group.threads) + " at " + place + ", the first of them " +
            triple(group.first->index);
    separator = "; ";
  }
  return live_ == count_ ? text : text + "; " + std::to_string(count_ - live_) + " have returned";
}

std::string BlockRunner::place_of(const Thread& thread) const {
  std::string place = describe(thread.site);
  if (thread.state == State::in_exchange) {
    char mask[16];
    std::snprintf(mask, sizeof mask, "0x%08x", thread.mask);
    place += " with mask " + std::string(mask);
  }
  return place;
}

// After an error: fibers in the middle of the kernel begin anew.
void BlockRunner::recover() {
  for (int i = 0; i < count_; ++i) {
    Thread& thread = threads_[static_cast<std::size_t>(i)];
    if (thread.state != State::exited) thread.fiber->restart();
  }
}

std::uint64_t BlockRunner::random() {
  return mixed(random_state_ += kGolden);
}

}  // namespace tilec::host
