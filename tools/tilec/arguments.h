// From words on the command line to values. Every function throws UsageError that names the word
// and what is allowed. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tilec/engine.h"

namespace tilec::command {

// One problem to plan, and how.
struct Request {
  Problem problem;
  PlanOptions options;
};

std::int64_t parse_integer(std::string_view text, std::string_view what, std::int64_t low,
                           std::int64_t high);
double parse_number(std::string_view text, std::string_view what);
DType parse_type(std::string_view text);

// "NAME=VALUE" each; the value an integer or a dtype.
Parameters parse_settings(const std::vector<std::string>& settings);
Value parse_value(std::string_view text, std::string_view what);

// "M,N,K[,dtype]" and "N[,dtype]", where N may be a shape: "64x32".
GemmProblem parse_gemm(std::string_view text);
AddProblem parse_add(std::string_view text);
Shape parse_shape(std::string_view text);

// "i/n", with i from 1 to n.
struct Shard {
  std::int64_t index = 1, count = 1;
};
Shard parse_shard(std::string_view text);

std::vector<std::string> split(std::string_view text, char separator);

// Of `names`, those that are a slip of the finger away from `word`: best first, at most three.
std::vector<std::string> similar(std::string_view word, const std::vector<std::string>& names);

// "a, b or c"
std::string either(const std::vector<std::string>& names);

}  // namespace tilec::command
