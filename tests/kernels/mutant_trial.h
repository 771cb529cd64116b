// Tries altered templates: each in a child process, on the host device, against tables small enough
// to be run hundreds of times.
#pragma once

#include <filesystem>
#include <vector>

#include "tilec/kernel_template.h"

namespace tilec::test {

enum class Outcome { noticed, survived, does_not_compile };

// Owns the folder of the compiled mutants. The process must have no other threads.
class Trials {
 public:
  Trials();
  ~Trials();
  Trials(const Trials&) = delete;
  Trials& operator=(const Trials&) = delete;

  // One outcome for each; as many at a time as there are cores. A wrong result, an error, a crash
  // and a run without end are noticed.
  std::vector<Outcome> run(const std::vector<KernelTemplate>& kernels) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace tilec::test
