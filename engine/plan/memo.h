// The plans an engine has made, by request: what makes a second plan of the same problem cheap.
// Thread-safe; look-ups run side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "plan/plan_state.h"

namespace tilec {

template <class Problem>
class Memo {
 public:
  std::shared_ptr<const PlanState> find(const Problem& problem, const PlanOptions& options) const {
    const std::shared_lock lock(mutex_);
    const auto found = plans_.find(View{problem, options});
    return found == plans_.end() ? nullptr : found->second;
  }

  // Counts the clears.
  std::uint64_t generation() const {
    const std::shared_lock lock(mutex_);
    return generation_;
  }

  // Keeps nothing if the memo was cleared since `generation`: the plan was made from what is no
  // longer so.
  void insert(const Problem& problem, const PlanOptions& options,
              std::shared_ptr<const PlanState> state, std::uint64_t generation) {
    const std::unique_lock lock(mutex_);
    if (generation != generation_) return;
    // A program that never repeats a shape must not grow for ever; plans are cheap to make again.
    if (plans_.size() >= kMostPlans) plans_.clear();
    plans_.insert_or_assign(Request{problem, options}, std::move(state));
  }

  void clear() {
    const std::unique_lock lock(mutex_);
    ++generation_;
    plans_.clear();
  }

 private:
  static constexpr std::size_t kMostPlans = 65536;

  struct Request {
    Problem problem;
    PlanOptions options;
  };
  struct View {  // a request that is looked for: nothing is copied
    const Problem& problem;
    const PlanOptions& options;
  };
  struct Hash {
    using is_transparent = void;
    template <class Key>
    std::size_t operator()(const Key& key) const {
      std::size_t seed = hash_value(key.problem) ^ key.options.max_workspace;
      if (!key.options.template_name.empty()) {
        seed = seed * 31 + std::hash<std::string>{}(key.options.template_name);
      }
      for (const auto& [name, value] : key.options.parameters) {
        seed = seed * 31 + std::hash<std::string>{}(name);
        seed = seed * 31 + (value.is_dtype() ? static_cast<std::size_t>(value.dtype())
                                             : static_cast<std::size_t>(value.integer()));
      }
      return seed;
    }
  };
  struct Equal {
    using is_transparent = void;
    template <class One, class Other>
    bool operator()(const One& one, const Other& other) const {
      return one.problem == other.problem && one.options == other.options;
    }
  };

  mutable std::shared_mutex mutex_;  // of the members below
  std::uint64_t generation_ = 0;
  std::unordered_map<Request, std::shared_ptr<const PlanState>, Hash, Equal> plans_;
};

}  // namespace tilec
