// The parameter sets that tests, the benchmark and a tuner walk through.
#include <set>
#include <stdexcept>
#include <utility>

#include "tilec/kernel_template.h"

namespace tilec {
namespace {

bool legal(const KernelTemplate& kernel, DType T, const Parameters& parameters,
           const Target& target) {
  try {
    complete(kernel, T, parameters, target);
    return true;
  } catch (const std::logic_error&) {
    return false;
  }
}

using Setting = std::pair<std::string, Value>;
using Pair = std::pair<Setting, Setting>;

std::set<Pair> pairs_of(const Parameters& parameters) {
  std::set<Pair> pairs;
  for (auto one = parameters.begin(); one != parameters.end(); ++one) {
    pairs.insert({*one, *one});  // so that a single parameter is covered too
    for (auto other = std::next(one); other != parameters.end(); ++other)
      pairs.insert({*one, *other});
  }
  return pairs;
}

}  // namespace

std::vector<Parameters> all_samples(const KernelTemplate& kernel, DType T, const Target& target) {
  std::vector<Parameters> sets{{}};
  for (const Parameter& parameter : kernel.parameters) {
    std::vector<Parameters> extended;
    for (const Parameters& set : sets) {
      for (const Value& value : parameter.samples) {
        extended.push_back(set);
        extended.back().emplace(parameter.name, value);
      }
    }
    sets = std::move(extended);
  }
  std::erase_if(sets, [&](const Parameters& set) { return !legal(kernel, T, set, target); });
  return sets;
}

// Greedy: each round takes the set that covers most of the pairs still open.
std::vector<Parameters> pairwise_samples(const KernelTemplate& kernel, DType T,
                                         const Target& target) {
  const std::vector<Parameters> all = all_samples(kernel, T, target);
  std::vector<std::set<Pair>> pairs;
  std::set<Pair> open;
  for (const Parameters& set : all) {
    pairs.push_back(pairs_of(set));
    open.insert(pairs.back().begin(), pairs.back().end());
  }
  std::vector<Parameters> cover;
  while (!open.empty()) {
    std::size_t best = 0, best_count = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::size_t count = 0;
      for (const Pair& pair : pairs[i]) count += open.count(pair);
      if (count > best_count) std::tie(best, best_count) = std::pair(i, count);
    }
    for (const Pair& pair : pairs[best]) open.erase(pair);
    cover.push_back(all[best]);
  }
  return cover;
}

}  // namespace tilec
