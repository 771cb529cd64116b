// A kernel before it is specialised: source text, the parameters it declares, what it supports, and
// how it is launched. The templates that ship with tilec and a user's own are the same kind of
// value.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "tilec/dtype.h"
#include "tilec/problem.h"
#include "tilec/target.h"

namespace tilec {

// The value of a template parameter: an integer (`constexpr int TILE = 32;`) or an element type
// (`using ACC = float;`).
class Value {
 public:
  Value(int integer) : value_(std::int64_t{integer}) {}
  Value(std::int64_t integer) : value_(integer) {}
  Value(DType dtype) : value_(dtype) {}

  bool is_dtype() const { return std::holds_alternative<DType>(value_); }
  std::int64_t integer() const;  // throws std::invalid_argument for a dtype
  DType dtype() const;           // throws std::invalid_argument for an integer
  std::string text() const;      // "32", "f32"

  bool operator==(const Value&) const = default;
  auto operator<=>(const Value&) const = default;

 private:
  std::variant<std::int64_t, DType> value_;
};

using Parameters = std::map<std::string, Value, std::less<>>;

// "TILE=32 TN=4"
std::string describe(const Parameters& parameters);
// The integer called `name`. Throws std::invalid_argument if there is none.
int integer(const Parameters& parameters, std::string_view name);

// The values a parameter may take: every integer of a range, or the listed ones.
class Allowed {
 public:
  static Allowed range(std::int64_t low, std::int64_t high);
  static Allowed one_of(std::vector<Value> values);

  bool contains(const Value& value) const;
  std::string text() const;  // "1 to 1024", "f32, f64"

 private:
  std::int64_t low_ = 0, high_ = -1;
  std::vector<Value> values_;
};

struct Parameter {
  std::string name;
  std::string meaning;  // one line, for `tilec info` and error messages
  Allowed allowed;
  // The value where the user names none; `before` holds the parameters declared earlier.
  std::function<Value(DType T, const Parameters& before)> default_value;
  // Values worth trying: what tests, the benchmark ladder and a tuner enumerate.
  std::vector<Value> samples = {};
};

// A default that depends on nothing.
std::function<Value(DType, const Parameters&)> always(Value value);

struct LaunchShape {
  std::array<std::int64_t, 3> grid{1, 1, 1};  // blocks; any zero: nothing to launch
  std::array<int, 3> block{1, 1, 1};          // threads
  std::int64_t shared_bytes = 0;              // dynamic shared memory

  // Of a block; the largest number where there are more than it can hold.
  std::int64_t threads() const {
    std::int64_t all = std::int64_t{block[0]} * block[1];
    const bool too_many = __builtin_mul_overflow(all, block[2], &all);
    return too_many ? std::numeric_limits<std::int64_t>::max() : all;
  }
  bool operator==(const LaunchShape&) const = default;
};

// A parameter set that `select` may return for problems of one shape class, given that dtype and
// target. Of several that fit, the one with the highest preference is taken.
struct Candidate {
  ShapeClass shape;
  Parameters parameters;           // those left out take their defaults
  int preference = 0;              // of several that fit, the highest is taken
  std::vector<DType> dtypes = {};  // empty: all that the template supports
  int least_sm = 0;
};

struct Header {
  std::string name;  // as it stands in #include "…"
  std::string text;
  bool operator==(const Header&) const = default;
};

struct KernelTemplate {
  std::string name;  // a C identifier; the source's `extern "C" __global__` function, unless entry
  Operation operation = Operation::gemm;
  std::string source;
  std::string entry = {};                  // left out: the template's name
  std::vector<Parameter> parameters = {};  // beside T, which every template is given
  std::vector<DType> dtypes;               // of T
  int least_sm = 75;                       // of the target
  bool arch_specific = false;              // needs sm_90a rather than sm_90, and so on
  int args_version = 1;                    // of the argument struct: GemmArgs, AddArgs
  std::vector<Header> headers = {};        // a user's own, found by name before ours
  std::vector<std::string> options = {};   // further NVRTC options, one string each; none that
                                           // uses files, which `headers` are for, or names a target

  // Why this specialisation is impossible, in words; empty where it is possible. Each value is
  // within what its parameter allows when this is called. Left out: everything is possible.
  std::function<std::string(DType T, const Parameters&, const Target&)> why_not = {};
  // Grid, block and shared memory. Pure; called with a normalized problem and complete parameters.
  std::function<LaunchShape(const Problem&, const Parameters&)> launch;
  std::vector<Candidate> candidates = {};

  const std::string& entry_point() const { return entry.empty() ? name : entry; }
};

// Throws std::invalid_argument where the template itself is unusable: no name, source or launch, a
// parameter declared twice or called T, another version of the argument struct, an #include of a file
// whose text no key would see (by a macro, of an absolute path or through "..").
void check(const KernelTemplate& kernel);

// `given`, with the defaults of the rest. Throws std::invalid_argument, naming the parameter and
// what it allows, for one that is undeclared, of the wrong kind, out of range, or that `why_not`
// rejects, and for a dtype or target that the template does not support.
Parameters complete(const KernelTemplate& kernel, DType T, const Parameters& given,
                    const Target& target);

// Every legal combination of the parameters' samples / a subset in which every pair of sample
// values that can go together does (pairwise cover).
std::vector<Parameters> all_samples(const KernelTemplate& kernel, DType T, const Target& target);
std::vector<Parameters> pairwise_samples(const KernelTemplate& kernel, DType T,
                                         const Target& target);

// The exact text that is compiled, and the headers it reaches.
struct Source {
  std::string text;             // prologue, #line, then the template untouched
  std::string entry;            // the kernel's symbol
  std::vector<Header> headers;  // included, transitively; sorted by name
  std::vector<std::string>
      toolkit_headers;  // included too, and known to neither us nor the template

  bool operator==(const Source&) const = default;
};

// Specialises the template. Pure: same arguments, same bytes. `parameters` are complete. Throws
// std::invalid_argument for a parameter that is missing or undeclared.
Source render(const KernelTemplate& kernel, DType T, const Parameters& parameters);

// The templates that ship with tilec, and one of them by name (nullptr where there is none).
const std::vector<KernelTemplate>& catalog();

// The headers that kernels include, by the name they are included with.
const std::vector<Header>& device_headers();

}  // namespace tilec
