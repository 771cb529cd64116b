// Whether kernels can be made for a target at all: told before anything is built.
#pragma once

#include <vector>

#include "build_list.h"

namespace tilec::command {

// Throws UsageError where no template takes so old a target.
void expect_new_enough(const Place& place, const std::vector<KernelTemplate>& templates,
                       const Options& options);

// Throws UsageError where one of these kernels is for a target that NVRTC does not know; it would be
// PTX of an older one. Throws Failure where there is no NVRTC, unless nothing is to be compiled.
void expect_compilable(const std::vector<const BuildItem*>& missing, const Options& options,
                       bool dry_run);

}  // namespace tilec::command
