// select: which template, with which parameter values, serves a problem. Pure.
#pragma once

#include <memory>
#include <vector>

#include "tilec/kernel_template.h"
#include "tilec/options.h"
#include "tilec/problem.h"

namespace tilec {

using Templates = std::vector<std::shared_ptr<const KernelTemplate>>;

struct Choice {
  std::shared_ptr<const KernelTemplate> kernel;
  Parameters parameters;  // complete
  DType T = f32;
  Target target = Target::host();  // what it is compiled for
  int preference = 0;
};

// The choices for a problem (normalized), the best first; never empty. What the options name is
// taken as named; the rest comes from the templates' candidates for the problem's shape class.
// Throws Error{invalid_argument} or Error{unsupported}, saying which template, parameter or dtype
// can't be.
std::vector<Choice> select(const Problem& problem, const PlanOptions& options, const Target& target,
                           const Templates& templates);

// Every choice that `select` can return for this target where the options name nothing: what a
// cache for it has to hold.
std::vector<Choice> selectable(const Target& target, const Templates& templates);

}  // namespace tilec
