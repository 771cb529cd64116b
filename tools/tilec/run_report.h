// What `tilec run` found, and how it is told.
#pragma once

#include <optional>
#include <string>

#include "arguments.h"
#include "output.h"
#include "reference.h"
#include "timing.h"

namespace tilec::command {

struct RunFlags {
  std::string device = "cuda";
  std::string alpha = "1", beta = "0";  // of a GEMM
  std::string seed = "1", repeat;
  bool check = false;
};

struct RunReport {
  Request request;
  std::string device;
  PlanInfo plan;
  double plan_seconds = 0;
  Timing timing;
  double operations = 0;  // of one launch: arithmetic for a GEMM, else 0
  double bytes = 0;       // of one launch: read and written, for an Add, else 0
  std::optional<reference::Verdict> check = {};
  std::optional<reference::Verdict> positive_check = {};  // of a GEMM, on positive data
  bool gaps_touched = false;  // something was written between the rows of D

  bool right() const {
    return (!check || check->ok) && (!positive_check || positive_check->ok) && !gaps_touched;
  }
};

Json to_json(const RunReport& report);
std::string text(const RunReport& report);
std::string complaint(const RunReport& report);  // empty unless the result is wrong

// One operation each: plans, runs and checks.
RunReport run_gemm(const Engine& engine, const Request& request, const RunFlags& flags);
RunReport run_add(const Engine& engine, const Request& request, const RunFlags& flags);

int samples(const Device& device, const RunFlags& flags);
std::uint64_t seed(const RunFlags& flags);
// Throws Failure where operands of so many bytes can't be in this machine's memory.
void expect_memory(double bytes);

}  // namespace tilec::command
