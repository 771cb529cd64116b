// Parameter values and what a template allows of them: Value, Allowed, check, complete.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "includes.h"
#include "tilec/kernel_template.h"

namespace tilec {
namespace {

bool is_identifier(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || digit(c); });
}

std::string declared_names(const KernelTemplate& kernel) {
  std::string names;
  for (const Parameter& parameter : kernel.parameters) {
    names += (names.empty() ? "" : ", ") + parameter.name;
  }
  return names.empty() ? "none" : names;
}

[[noreturn]] void reject(const KernelTemplate& kernel, const std::string& why) {
  throw std::invalid_argument(kernel.name + ": " + why);
}

void expect_support(const KernelTemplate& kernel, DType T, const Target& target) {
  if (std::find(kernel.dtypes.begin(), kernel.dtypes.end(), T) == kernel.dtypes.end()) {
    std::string names;
    for (DType dtype : kernel.dtypes)
      names += (names.empty() ? "" : ", ") + std::string(info(dtype).name);
    throw std::domain_error(kernel.name + ": no kernel for " + std::string(info(T).name) +
                            "; it supports " + names);
  }
  if (target.sm() < kernel.least_sm) {
    throw std::domain_error(kernel.name + ": needs sm_" + std::to_string(kernel.least_sm) +
                            " or later, not " + target.name());
  }
}

}  // namespace

std::int64_t Value::integer() const {
  if (is_dtype()) throw std::invalid_argument(text() + " is an element type, not an integer");
  return std::get<std::int64_t>(value_);
}

DType Value::dtype() const {
  if (!is_dtype()) throw std::invalid_argument(text() + " is an integer, not an element type");
  return std::get<DType>(value_);
}

std::string Value::text() const {
  return is_dtype() ? std::string(info(std::get<DType>(value_)).name)
                    : std::to_string(std::get<std::int64_t>(value_));
}

std::string describe(const Parameters& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters) {
    text += (text.empty() ? "" : " ") + name + "=" + value.text();
  }
  return text;
}

int integer(const Parameters& parameters, std::string_view name) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) {
    throw std::invalid_argument("there is no parameter " + std::string(name));
  }
  return static_cast<int>(found->second.integer());
}

Allowed Allowed::range(std::int64_t low, std::int64_t high) {
  Allowed allowed;
  allowed.low_ = low;
  allowed.high_ = high;
  return allowed;
}

Allowed Allowed::one_of(std::vector<Value> values) {
  Allowed allowed;
  allowed.values_ = std::move(values);
  return allowed;
}

bool Allowed::contains(const Value& value) const {
  if (std::find(values_.begin(), values_.end(), value) != values_.end()) return true;
  return !value.is_dtype() && value.integer() >= low_ && value.integer() <= high_;
}

std::string Allowed::text() const {
  if (values_.empty()) return std::to_string(low_) + " to " + std::to_string(high_);
  std::string text;
  for (const Value& value : values_) text += (text.empty() ? "" : ", ") + value.text();
  return text;
}

std::function<Value(DType, const Parameters&)> always(Value value) {
  return [value](DType, const Parameters&) { return value; };
}

void check(const KernelTemplate& kernel) {
  if (!is_identifier(kernel.name)) {
    throw std::invalid_argument("a template's name is a C identifier, not '" + kernel.name + "'");
  }
  if (!is_identifier(kernel.entry_point())) {
    reject(kernel, "its entry is a C identifier, not '" + kernel.entry + "'");
  }
  if (kernel.source.empty()) reject(kernel, "the template has no source");
  if (const std::string fault = unseen_include(kernel); !fault.empty()) reject(kernel, fault);
  if (!kernel.launch)
    reject(kernel, "the template has no launch function (grid, block, shared memory)");
  if (kernel.dtypes.empty()) reject(kernel, "the template supports no dtype");
  if (kernel.args_version != 1) {
    reject(kernel, "it expects version " + std::to_string(kernel.args_version) +
                       " of the argument struct; this tilec passes version 1");
  }
  for (auto one = kernel.parameters.begin(); one != kernel.parameters.end(); ++one) {
    if (!is_identifier(one->name) || one->name == "T") {
      reject(kernel,
             "a parameter is called by a C identifier other than T, not '" + one->name + "'");
    }
    if (!one->default_value) reject(kernel, "parameter " + one->name + " has no default");
    if (std::any_of(kernel.parameters.begin(), one,
                    [&](const Parameter& other) { return other.name == one->name; })) {
      reject(kernel, "parameter " + one->name + " is declared twice");
    }
  }
}

Parameters complete(const KernelTemplate& kernel, DType T, const Parameters& given,
                    const Target& target) {
  expect_support(kernel, T, target);
  for (const auto& [name, value] : given) {
    if (std::ranges::find(kernel.parameters, name, &Parameter::name) == kernel.parameters.end()) {
      reject(kernel, "it has no parameter " + name + "; it declares " + declared_names(kernel));
    }
  }
  Parameters all;
  for (const Parameter& parameter : kernel.parameters) {
    const auto found = given.find(parameter.name);
    const Value value = found != given.end() ? found->second : parameter.default_value(T, all);
    if (!parameter.allowed.contains(value)) {
      reject(kernel, parameter.name + " = " + value.text() + " (" + parameter.meaning +
                         ") is not allowed; allowed: " + parameter.allowed.text());
    }
    if (!value.is_dtype() && !std::in_range<int>(value.integer())) {
      reject(kernel, parameter.name + " = " + value.text() + " (" + parameter.meaning +
                         ") is beyond an int, which parameters are in a kernel's text");
    }
    all.emplace(parameter.name, value);
  }
  if (kernel.why_not) {
    const std::string why = kernel.why_not(T, all, target);
    if (!why.empty()) reject(kernel, why);
  }
  return all;
}

}  // namespace tilec
