// Every template compiled by NVRTC: the cubin's target, its registers, no local memory where the
// template promises none. No GPU and no driver needed.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "compile/compiler.h"
#include "tests/kernels/element_types.h"
#include "tests/support/engines.h"
#include "tests/support/skip.h"

// Types, so that a test case is made for each.
namespace tilec::test {
struct sm_75 {
  static constexpr const char* name = "sm_75";
};
struct sm_80 {
  static constexpr const char* name = "sm_80";
};
struct sm_86 {
  static constexpr const char* name = "sm_86";
};
struct sm_87 {
  static constexpr const char* name = "sm_87";
};
struct sm_89 {
  static constexpr const char* name = "sm_89";
};
struct sm_90 {
  static constexpr const char* name = "sm_90";
};
struct sm_90a {
  static constexpr const char* name = "sm_90a";
};
struct sm_100 {
  static constexpr const char* name = "sm_100";
};
struct sm_103 {
  static constexpr const char* name = "sm_103";
};
struct sm_120 {
  static constexpr const char* name = "sm_120";
};
}  // namespace tilec::test

TYPE_TO_STRING_AS("sm_75", tilec::test::sm_75);
TYPE_TO_STRING_AS("sm_80", tilec::test::sm_80);
TYPE_TO_STRING_AS("sm_86", tilec::test::sm_86);
TYPE_TO_STRING_AS("sm_87", tilec::test::sm_87);
TYPE_TO_STRING_AS("sm_89", tilec::test::sm_89);
TYPE_TO_STRING_AS("sm_90", tilec::test::sm_90);
TYPE_TO_STRING_AS("sm_90a", tilec::test::sm_90a);
TYPE_TO_STRING_AS("sm_100", tilec::test::sm_100);
TYPE_TO_STRING_AS("sm_103", tilec::test::sm_103);
TYPE_TO_STRING_AS("sm_120", tilec::test::sm_120);
#define TILEC_ARCHITECTURES sm_75, sm_80, sm_86, sm_87, sm_89, sm_90, sm_90a, sm_100, sm_103, sm_120

namespace tilec::test {
namespace {

struct Specialisation {
  const KernelTemplate* kernel;
  DType T;
  Parameters parameters;
  Target target;

  std::string text() const {
    return kernel->name + " T=" + std::string(info(T).name) + " " + describe(parameters) + " for " +
           target.name();
  }
};

using Cover = std::vector<Parameters> (*)(const KernelTemplate&, DType, const Target&);

std::vector<Specialisation> specialisations(DType T, const std::vector<const char*>& targets,
                                            Cover cover) {
  std::vector<Specialisation> list;
  for (const KernelTemplate& kernel : catalog()) {
    if (std::ranges::count(kernel.dtypes, T) == 0) continue;
    for (const char* name : targets) {
      const Target target = Target::parse(name);
      for (const Parameters& set : cover(kernel, T, target)) {
        list.push_back({&kernel, T, set, target});
      }
    }
  }
  return list;
}

// What is wrong with it, in words. `most_local`: bytes of a thread's local memory.
std::string failure(const Compiler& compiler, const Specialisation& one, int most_local) {
  const CompileRequest request{.source = render(*one.kernel, one.T, one.parameters),
                               .target = one.target,
                               .options = one.kernel->options,
                               .name = one.text()};
  Artifact artifact;
  try {
    artifact = compiler.compile(request);
  } catch (const Error& error) {
    return error.what();
  }
  if (artifact.kind != "cubin") return "it is a " + artifact.kind;
  const cache::Metadata metadata{.kind = artifact.kind, .target = one.target.name()};
  std::string wrong = cache::check_payload(metadata, artifact.image.data(), artifact.image.size());
  if (artifact.entries.size() != 1) return wrong + "; it has other than one kernel";
  const cache::EntryPoint& entry = artifact.entries.front();
  if (entry.name != one.kernel->entry_point()) wrong += "; its kernel is called " + entry.name;
  if (entry.registers < 4 || entry.registers > 255) {
    wrong += "; it uses " + std::to_string(entry.registers) + " registers";
  }
  if (std::max({entry.spill_store_bytes, entry.spill_load_bytes, entry.local_bytes}) > most_local) {
    wrong += "; it uses " + std::to_string(entry.local_bytes) +
             " bytes of local memory and spills " + std::to_string(entry.spill_store_bytes);
  }
  if (entry.static_shared_bytes != 0) wrong += "; it has static shared memory";
  if (artifact.log.find("warning") != std::string::npos) wrong += "; " + artifact.log;
  return wrong;
}

// Why NVRTC can't be used here; empty where it can.
std::string missing(const Compiler& compiler) {
  try {
    compiler.nearest_target(Target::parse("sm_90"));
    return {};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    return error.what();
  }
}

void compile_all(const std::vector<Specialisation>& list, unsigned threads, int most_local) {
  const auto compiler = nvrtc_compiler(test_options().nvrtc);
  if (const std::string why = missing(*compiler); !why.empty()) return skip(why);
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::vector<std::string> failures;
  const auto work = [&] {
    for (std::size_t i = next++; i < list.size(); i = next++) {
      const std::string wrong = failure(*compiler, list[i], most_local);
      const std::lock_guard lock(mutex);
      if (!wrong.empty()) failures.push_back(list[i].text() + ": " + wrong);
    }
  };
  {
    std::vector<std::jthread> others;
    for (unsigned i = 1; i < threads; ++i) others.emplace_back(work);
    work();
  }
  CHECK(list.size() > 50);
  for (const std::string& wrong : failures) FAIL_CHECK(wrong);
}

TEST_SUITE("nvrtc") {
  TEST_CASE_TEMPLATE("a pairwise cover to cubins for sm_75, sm_80, sm_90", T, TILEC_ELEMENT_TYPES) {
    compile_all(specialisations(dtype_of<T>, {"sm_75", "sm_80", "sm_90"}, pairwise_samples), 1, 0);
  }
}

TEST_SUITE("nvrtc long") {
  TEST_CASE_TEMPLATE("all samples to cubins", Architecture, TILEC_ARCHITECTURES) {
    std::vector<Specialisation> list;
    for (const DTypeInfo& type : dtypes()) {
      std::ranges::move(specialisations(type.dtype, {Architecture::name}, all_samples),
                        std::back_inserter(list));
    }
    // A few of the largest tiles spill a little.
    compile_all(list, std::thread::hardware_concurrency(), 64);
  }
}

}  // namespace
}  // namespace tilec::test
