// The way in: an Engine plans operations for one device. plan → select → render → key → obtain →
// load happens in `plan`; the plan's `run` only launches.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tilec/add.h"
#include "tilec/device.h"
#include "tilec/gemm.h"
#include "tilec/kernel_template.h"
#include "tilec/options.h"

namespace tilec {

// What an engine has done so far.
struct Stats {
  std::uint64_t memory_hits = 0;                // plans served from memory
  std::map<std::string, std::uint64_t> hits;    // kernels by root: "own", a path, "embedded"
  std::map<std::string, std::uint64_t> misses;  // by reason: "never built", "checksum", …
  std::uint64_t compiles = 0;
  std::uint64_t failed_compiles = 0;
  std::uint64_t bytes_read = 0;     // cache entries
  std::uint64_t bytes_written = 0;  // cache entries
  double compile_seconds = 0;
  double lookup_seconds = 0;
};

// A kernel that `plan` may choose by itself for some problem.
struct SelectableKernel {
  std::string template_name;
  DType T = f32;
  Parameters parameters;  // complete

  bool operator==(const SelectableKernel&) const = default;
};

// The kernel that a plan would start with.
struct KernelPreview {
  Operation operation = Operation::gemm;
  std::string template_name;
  DType T = f32;
  Parameters parameters;  // complete
  Target target = Target::host();
  std::string key;  // of its cache entry, 32 hexadecimal digits
};

// Thread-safe. Cheap to keep, not to make: one per device and program is usual. Moved-from engines
// may only be destroyed.
//
// An Engine belongs to the process that made it. In a forked child everything but device(), options()
// and the destructor throws Error{driver}; make a new Engine there. A plan goes on running on the
// host device, and throws on CUDA, which does not outlive a fork.
class TILEC_EXPORT Engine {
 public:
  // The first CUDA device and the options of the environment. Throws as Device::first_cuda and
  // Options::from_env do.
  Engine();
  explicit Engine(Device device);
  Engine(Device device, Options options);
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  // D = A·B, float, row-major, tightly packed.
  Gemm plan(std::int64_t M, std::int64_t N, std::int64_t K) const;
  // A plan for the problem; the same plan again for the same request. Where the kernel that is wanted
  // most can't be here (unsupported, or the driver does not take it), the next one serves, and a
  // warning says why; under CachePolicy::must_hit also the next one that is in the cache. Throws
  // Error: invalid_argument for a shape, template or parameter that can't be, unsupported for one
  // that can't be here, compile with the compiler's log, driver, or cache_miss under must_hit.
  Gemm plan(const GemmProblem& problem, const PlanOptions& options = {}) const;
  Add plan(const AddProblem& problem, const PlanOptions& options = {}) const;

  // Makes a template usable by name in PlanOptions. One of the same name is replaced for plans made
  // from now on. Throws Error{invalid_argument} for a template that can't work, for one that includes
  // or has compiler options that bring in files whose text is no part of a kernel's key, as that of
  // KernelTemplate::headers is, and for options that name a target.
  void register_template(KernelTemplate kernel) const;
  // The templates registered now: the catalog's and the user's, by name.
  std::vector<KernelTemplate> templates() const;

  // Every kernel that `plan` may choose on this device where the options name nothing: what a cache
  // for it has to hold.
  std::vector<SelectableKernel> selectable() const;
  // What planning this problem would choose. Throws as `plan` does, compiles and looks up nothing.
  KernelPreview preview(const Problem& problem, const PlanOptions& options = {}) const;
  // The text that planning this problem would compile. Throws as `plan` does, compiles nothing.
  Source source(const Problem& problem, const PlanOptions& options = {}) const;

  const Device& device() const;
  const Options& options() const;
  Stats stats() const;
  // What is wrong with the cache's roots, one sentence each; empty where all is well.
  std::vector<std::string> cache_problems() const;

  // Forgets the plans kept for reuse and unloads kernels that no plan holds. A captured graph that
  // still uses one of them must be gone.
  void trim() const;

 private:
  struct State;
  struct Release {
    void operator()(State* state) const;
  };
  State& state() const;  // throws in a forked child
  std::unique_ptr<State, Release> state_;
};

}  // namespace tilec
