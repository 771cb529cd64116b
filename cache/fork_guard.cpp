#include "fork_guard.h"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <unordered_map>

namespace tilec::cache {

namespace {

struct Guard {
  std::mutex state_mutex;
  std::mutex descriptors_mutex;
  std::unordered_map<std::uint64_t, int> descriptors;
  std::uint64_t next_ticket = 1;
};

Guard& guard();

void before_fork() {
  guard().descriptors_mutex.lock();
  guard().state_mutex.lock();
}

void after_fork_in_parent() {
  guard().state_mutex.unlock();
  guard().descriptors_mutex.unlock();
}

void after_fork_in_child() {
  for (const auto& [ticket, descriptor] : guard().descriptors) ::close(descriptor);
  guard().descriptors.clear();
  after_fork_in_parent();
}

// Never destroyed: static objects of the program may still hold locks when it ends.
Guard& guard() {
  static Guard* const instance = [] {
    ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    return new Guard;
  }();
  return *instance;
}

}  // namespace

std::mutex& fork_safe_mutex() {
  return guard().state_mutex;
}

GuardedDescriptor::GuardedDescriptor(const std::function<Descriptor()>& open) {
  Guard& all = guard();
  const std::lock_guard hold(all.descriptors_mutex);
  Descriptor opened = open();
  if (!opened) return;
  ticket_ = all.next_ticket++;
  all.descriptors.emplace(ticket_, opened.get());
  opened.release();
}

GuardedDescriptor& GuardedDescriptor::operator=(GuardedDescriptor&& other) noexcept {
  if (this != &other) {
    GuardedDescriptor old = adopt(release());
    ticket_ = other.release();
  }
  return *this;
}

GuardedDescriptor::~GuardedDescriptor() {
  if (ticket_ == 0) return;
  Guard& all = guard();
  const std::lock_guard hold(all.descriptors_mutex);
  const auto found = all.descriptors.find(ticket_);
  if (found == all.descriptors.end()) return;
  const int saved = errno;
  ::close(found->second);
  errno = saved;
  all.descriptors.erase(found);
}

int GuardedDescriptor::get() const {
  if (ticket_ == 0) return -1;
  Guard& all = guard();
  const std::lock_guard hold(all.descriptors_mutex);
  const auto found = all.descriptors.find(ticket_);
  return found == all.descriptors.end() ? -1 : found->second;
}

std::uint64_t GuardedDescriptor::release() {
  const std::uint64_t ticket = ticket_;
  ticket_ = 0;
  return ticket;
}

GuardedDescriptor GuardedDescriptor::adopt(std::uint64_t ticket) {
  GuardedDescriptor out;
  out.ticket_ = ticket;
  return out;
}

}  // namespace tilec::cache
