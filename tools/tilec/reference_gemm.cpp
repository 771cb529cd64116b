// A blocked GEMM in float64 or in unsigned 32-bit integers.
#include "reference_gemm.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <type_traits>

#include "parallel.h"

namespace tilec::reference {
namespace {

constexpr std::int64_t kTileRows = 64;
constexpr std::int64_t kTileColumns = 256;
constexpr std::int64_t kTileK = 64;

// Which rows and columns of D to compute: all of both, or a block of each.
struct Region {
  std::vector<std::int64_t> rows, columns;
};

std::vector<std::int64_t> all(std::int64_t count) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

// The first, the last and others at random, in order.
std::vector<std::int64_t> sample(std::int64_t count, std::int64_t wanted, std::uint64_t seed) {
  if (wanted >= count) return all(count);
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> indices{0, count - 1};
  while (static_cast<std::int64_t>(indices.size()) < wanted) {
    indices.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count)));
  }
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  return indices;
}

std::vector<Region> regions(const GemmProblem& problem, const CheckOptions& options) {
  const auto m = static_cast<double>(problem.M), n = static_cast<double>(problem.N);
  const auto k = static_cast<double>(std::max<std::int64_t>(problem.K, 1));
  if (m * n * k <= options.max_products) return {{all(problem.M), all(problem.N)}};
  const auto affordable = [&](double other) {
    return std::max<std::int64_t>(
        2, static_cast<std::int64_t>(options.max_products / (2 * other * k)));
  };
  return {{sample(problem.M, affordable(n), options.seed), all(problem.N)},
          {all(problem.M), sample(problem.N, affordable(m), options.seed + 1)}};
}

template <class Number>
Number load(DType type, const void* array, std::int64_t index) {
  const double value = load_as_double(type, array, static_cast<std::size_t>(index));
  if constexpr (std::is_same_v<Number, double>) {
    return value;
  } else {
    return static_cast<Number>(static_cast<std::int32_t>(value));
  }
}

template <class Number>
Number magnitude(Number value) {
  if constexpr (std::is_same_v<Number, double>) {
    return std::fabs(value);
  } else {
    return 0;
  }
}

template <class Number>
struct Sums {
  std::vector<Number> values, magnitudes;
};

// One block of K: sums += A[rows, k0…] · B[k0…, columns].
template <class Number>
void accumulate(const std::vector<Number>& a, const std::vector<Number>& b, std::size_t rows,
                std::size_t columns, std::size_t depth, Sums<Number>& sums) {
  for (std::size_t i = 0; i < rows; ++i) {
    Number* values = sums.values.data() + i * columns;
    Number* magnitudes = sums.magnitudes.data() + i * columns;
    for (std::size_t k = 0; k < depth; ++k) {
      const Number left = a[i * depth + k];
      const Number* right = b.data() + k * columns;
      for (std::size_t j = 0; j < columns; ++j) {
        const Number product = left * right[j];
        values[j] += product;
        magnitudes[j] += magnitude(product);
      }
    }
  }
}

template <class Number>
Sums<Number> products(const GemmProblem& problem, const GemmOperands& operands, const Tile& tile) {
  const std::size_t rows = tile.rows.size(), columns = tile.columns.size();
  Sums<Number> sums{std::vector<Number>(rows * columns), std::vector<Number>(rows * columns)};
  std::vector<Number> a, b;
  for (std::int64_t k0 = 0; k0 < problem.K; k0 += kTileK) {
    const std::int64_t depth = std::min(kTileK, problem.K - k0);
    a.clear();
    b.clear();
    for (const std::int64_t row : tile.rows) {
      for (std::int64_t k = k0; k < k0 + depth; ++k) {
        a.push_back(load<Number>(problem.a, operands.a, row * problem.lda + k));
      }
    }
    for (std::int64_t k = k0; k < k0 + depth; ++k) {
      for (const std::int64_t column : tile.columns) {
        b.push_back(load<Number>(*problem.b, operands.b, k * problem.ldb + column));
      }
    }
    accumulate(a, b, rows, columns, static_cast<std::size_t>(depth), sums);
  }
  return sums;
}

// An integer scalar as the two's complement number that integer kernels multiply with.
template <class Number>
Number scalar(double value) {
  if constexpr (std::is_same_v<Number, double>) {
    return value;
  } else {
    return static_cast<Number>(static_cast<std::int64_t>(value));
  }
}

template <class Number>
double finished(Number value) {
  if constexpr (std::is_same_v<Number, double>) {
    return value;
  } else {
    return static_cast<std::int32_t>(value);
  }
}

template <class Number>
void compute(const GemmProblem& problem, const GemmOperands& operands, Tile& tile) {
  const auto alpha = scalar<Number>(operands.alpha), beta = scalar<Number>(operands.beta);
  GemmProblem shape = problem;
  const bool any = has_products(problem, operands);
  if (!any) shape.K = 0;  // A and B are not read
  const Sums<Number> sums = products<Number>(shape, operands, tile);
  tile.elements.resize(sums.values.size());
  for (std::size_t i = 0; i < sums.values.size(); ++i) {
    const std::int64_t row = tile.rows[i / tile.columns.size()];
    const std::int64_t column = tile.columns[i % tile.columns.size()];
    Number value = any ? static_cast<Number>(alpha * sums.values[i]) : Number{0};
    Number scale = any ? magnitude(alpha) * sums.magnitudes[i] : Number{0};
    if (operands.beta != 0) {
      const Number c = load<Number>(*problem.d, operands.c, row * problem.ldc + column);
      value += beta * c;
      scale += magnitude(static_cast<Number>(beta * c));
    }
    tile.elements[i] = {finished(value), finished(scale)};
  }
}

Tile cut(const Region& region, std::int64_t row_block, std::int64_t column_block) {
  const auto part = [](const std::vector<std::int64_t>& indices, std::int64_t block,
                       std::int64_t length) {
    const auto first = indices.begin() + block * length;
    const auto left = indices.end() - first;
    return std::vector<std::int64_t>(first, first + std::min<std::int64_t>(left, length));
  };
  return {part(region.rows, row_block, kTileRows),
          part(region.columns, column_block, kTileColumns),
          {}};
}

}  // namespace

void for_each_tile(const GemmProblem& problem, const GemmOperands& operands,
                   const CheckOptions& options, const std::function<void(const Tile&)>& visit) {
  const bool integer = info(*problem.d).is_integer();
  if (problem.M == 0 || problem.N == 0) return;
  for (const Region& region : regions(problem, options)) {
    const auto blocks = [](std::size_t count, std::int64_t length) {
      return (static_cast<std::int64_t>(count) + length - 1) / length;
    };
    const std::int64_t across = blocks(region.columns.size(), kTileColumns);
    const std::int64_t down = blocks(region.rows.size(), kTileRows);
    parallel_for(across * down, options.threads, [&](std::int64_t task) {
      Tile tile = cut(region, task / across, task % across);
      if (integer) {
        compute<std::uint32_t>(problem, operands, tile);
      } else {
        compute<double>(problem, operands, tile);
      }
      visit(tile);
    });
  }
}

}  // namespace tilec::reference
