// select: the candidates that fit, in the order of their preference.
#include "plan/select.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <stdexcept>

#include "plan/translate.h"

namespace tilec {
namespace {

// The target that this template is compiled for on such a device.
Target compile_target(const KernelTemplate& kernel, const Target& target) {
  return kernel.arch_specific ? target : target.plain();
}

bool supports(const KernelTemplate& kernel, DType T, const Target& target) {
  return std::find(kernel.dtypes.begin(), kernel.dtypes.end(), T) != kernel.dtypes.end() &&
         target.sm() >= kernel.least_sm;
}

bool fits(const Candidate& candidate, DType T, const Target& target) {
  const auto& dtypes = candidate.dtypes;
  return target.sm() >= candidate.least_sm &&
         (dtypes.empty() || std::find(dtypes.begin(), dtypes.end(), T) != dtypes.end());
}

Choice make(const std::shared_ptr<const KernelTemplate>& kernel, DType T, const Parameters& given,
            const Target& target, int preference) {
  return {.kernel = kernel,
          .parameters = complete(*kernel, T, given, target),
          .T = T,
          .target = compile_target(*kernel, target),
          .preference = preference};
}

std::string names(const Templates& templates, Operation operation) {
  std::string text;
  for (const auto& kernel : templates) {
    if (kernel->operation == operation) text += (text.empty() ? "" : ", ") + kernel->name;
  }
  return text;
}

const std::shared_ptr<const KernelTemplate>& named(const std::string& name, Operation operation,
                                                   const Templates& templates) {
  for (const auto& kernel : templates) {
    if (kernel->name != name) continue;
    if (kernel->operation == operation) return kernel;
    throw Error(ErrorKind::invalid_argument,
                fmt::format("template {} is for {}, not for {}; those for {} are {}", name,
                            to_string(kernel->operation), to_string(operation),
                            to_string(operation), names(templates, operation)));
  }
  throw Error(ErrorKind::invalid_argument,
              fmt::format("there is no template '{}'; those for {} are {}", name,
                          to_string(operation), names(templates, operation)));
}

bool declares(const KernelTemplate& kernel, const Parameters& parameters) {
  return std::all_of(parameters.begin(), parameters.end(), [&](const auto& given) {
    return std::any_of(kernel.parameters.begin(), kernel.parameters.end(),
                       [&](const Parameter& parameter) { return parameter.name == given.first; });
  });
}

// The templates to choose from where none is named; perhaps none.
Templates eligible(const Templates& templates, Operation operation, DType T,
                   const Parameters& parameters, const Target& target) {
  Templates list;
  for (const auto& kernel : templates) {
    if (kernel->operation == operation && !kernel->candidates.empty() &&
        supports(*kernel, T, target) && declares(*kernel, parameters)) {
      list.push_back(kernel);
    }
  }
  return list;
}

[[noreturn]] void throw_none_eligible(const Templates& templates, Operation operation, DType T,
                                      const Parameters& parameters, const Target& target) {
  if (!parameters.empty()) {
    throw Error(
        ErrorKind::invalid_argument,
        fmt::format("no template that select chooses from has all of {}; name the template, "
                    "one of {}",
                    describe(parameters), names(templates, operation)));
  }
  int least = std::numeric_limits<int>::max();
  for (const auto& kernel : templates) {
    if (kernel->operation == operation) least = std::min(least, kernel->least_sm);
  }
  const bool too_old = least != std::numeric_limits<int>::max() && target.sm() < least;
  throw Error(
      ErrorKind::unsupported,
      fmt::format(
          "no template for {} of {} on {}{}", to_string(operation), info(T).name, target.name(),
          too_old ? fmt::format("; the least target they serve is sm_{}", least) : std::string()));
}

// Candidates are written for all dtypes and targets at once: those that don't go together are left
// out.
void add_candidates(const std::shared_ptr<const KernelTemplate>& kernel, DType T, ShapeClass shape,
                    const Target& target, std::vector<Choice>& choices) {
  for (const Candidate& candidate : kernel->candidates) {
    if (candidate.shape != shape || !fits(candidate, T, target)) continue;
    try {
      choices.push_back(make(kernel, T, candidate.parameters, target, candidate.preference));
    } catch (const std::invalid_argument&) {
    }
  }
}

// What these templates offer for a shape class, the best first; the first one's defaults if that is
// nothing.
std::vector<Choice> offered(const Templates& list, DType T, ShapeClass shape,
                            const Target& target) {
  std::vector<Choice> choices;
  for (const auto& kernel : list) add_candidates(kernel, T, shape, target, choices);
  if (choices.empty()) choices.push_back(make(list.front(), T, {}, target, 0));
  std::stable_sort(choices.begin(), choices.end(), [](const Choice& one, const Choice& other) {
    return one.preference > other.preference;
  });
  return choices;
}

// Parameters that are given settle the others through the template's own defaults: a candidate's
// would seldom go with them. Throws what the first template has against them if all have something.
std::vector<Choice> as_given(const Templates& list, DType T, const Parameters& given,
                             const Target& target) {
  std::vector<Choice> choices;
  std::exception_ptr first;
  for (const auto& kernel : list) {
    try {
      choices.push_back(make(kernel, T, given, target, 0));
    } catch (const std::logic_error&) {
      if (first == nullptr) first = std::current_exception();
    }
  }
  if (choices.empty()) std::rethrow_exception(first);
  return choices;
}

}  // namespace

std::vector<Choice> select(const Problem& problem, const PlanOptions& options, const Target& target,
                           const Templates& templates) {
  return translated([&] {
    const Operation operation = tilec::operation(problem);
    const DType T = element_type(problem);
    const Templates list = options.template_name.empty()
                               ? eligible(templates, operation, T, options.parameters, target)
                               : Templates{named(options.template_name, operation, templates)};
    if (list.empty()) {
      throw_none_eligible(templates, operation, T, options.parameters, target);
    }
    return options.parameters.empty() ? offered(list, T, shape_class(problem), target)
                                      : as_given(list, T, options.parameters, target);
  });
}

std::vector<Choice> selectable(const Target& target, const Templates& templates) {
  return translated([&] {
    std::vector<Choice> all;
    for (Operation operation : {Operation::gemm, Operation::add}) {
      for (const DTypeInfo& type : dtypes()) {
        const Templates list = eligible(templates, operation, type.dtype, {}, target);
        if (list.empty()) continue;
        for (ShapeClass shape : kShapeClasses) {
          const std::vector<Choice> choices = offered(list, type.dtype, shape, target);
          all.insert(all.end(), choices.begin(), choices.end());
        }
      }
    }
    return all;
  });
}

}  // namespace tilec
