// Fair comparison: contestants take turns within each round, so that a drift of clocks meets all of
// them, and each is told by its median.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace tilec::bench {

struct Contestant {
  std::string name;
  std::function<double()> measure;  // one measurement, in seconds
};

struct Spread {
  double median = 0, least = 0, most = 0;
};

inline Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  const double median = n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  return {median, values.front(), values.back()};
}

// One spread per contestant, over `rounds` rounds after `warm_up` that are not counted. Every other
// round goes backwards.
inline std::vector<Spread> interleave(const std::vector<Contestant>& contestants, int rounds,
                                      int warm_up) {
  std::vector<std::vector<double>> times(contestants.size());
  for (int round = -warm_up; round < rounds; ++round) {
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      const std::size_t who = round % 2 == 0 ? i : contestants.size() - 1 - i;
      const double seconds = contestants[who].measure();
      if (round >= 0) times[who].push_back(seconds);
    }
  }
  std::vector<Spread> spreads;
  for (std::vector<double>& list : times) spreads.push_back(spread(std::move(list)));
  return spreads;
}

// Seconds of wall time for `calls` calls, each.
template <class Function>
double seconds_each(int calls, const Function& function) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
}

}  // namespace tilec::bench
