// Reading manifests and expanding their lists and ranges.
#include "manifest.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace tilec::command {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kMostRequests = 1'000'000;

// {"from": 64, "to": 256, "step": 64} or {"from": 1, "to": 1024, "factor": 2}; `to` included.
std::vector<std::int64_t> range(const Node& node) {
  node.expect_keys({"from", "to", "step", "factor"});
  const std::int64_t from = node.at("from").integer(0, kMost);
  const std::int64_t to = node.at("to").integer(from, kMost);
  const auto step = node.find("step"), factor = node.find("factor");
  if (step && factor) node.fail("either 'step' or 'factor', not both");
  if (factor && from == 0) node.at("from").fail("a range with a 'factor' starts at 1 or more");
  const std::int64_t by = step ? step->integer(1, kMost) : factor ? factor->integer(2, kMost) : 1;
  std::vector<std::int64_t> values;
  for (std::int64_t value = from;;) {
    values.push_back(value);
    if (values.size() > kMostRequests) node.fail("this range has over a million values");
    if (factor ? value > to / by : value > to - by) return values;
    value = factor ? value * by : value + by;
  }
}

// An integer, a range, or a list of both; each value once, in order.
std::vector<std::int64_t> integers(const Node& node) {
  std::vector<std::int64_t> values;
  for (const Node& item : node.items()) {
    if (item.is_object()) {
      const std::vector<std::int64_t> more = range(item);
      values.insert(values.end(), more.begin(), more.end());
    } else {
      values.push_back(item.integer(0, kMost));
    }
  }
  if (values.empty()) node.fail("the list is empty");
  std::vector<std::int64_t> once;
  std::vector<std::int64_t> seen;
  for (const std::int64_t value : values) {
    const auto place = std::lower_bound(seen.begin(), seen.end(), value);
    if (place != seen.end() && *place == value) continue;
    seen.insert(place, value);
    once.push_back(value);
  }
  return once;
}

std::vector<std::string> strings(const Node& node) {
  std::vector<std::string> values;
  for (const Node& item : node.items()) values.push_back(item.string());
  if (values.empty()) node.fail("the list is empty");
  return values;
}

DType dtype(const Node& node) {
  const std::optional<DType> type = parse_dtype(node.string());
  if (!type) node.fail("'" + node.string() + "' is not a dtype; dtypes are " + dtype_names());
  return *type;
}

std::vector<DType> dtypes_of(const Node& problem) {
  const auto node = problem.find("dtype");
  if (!node) return {f32};
  std::vector<DType> types;
  for (const Node& item : node->items()) types.push_back(dtype(item));
  if (types.empty()) node->fail("the list is empty");
  return types;
}

// The values of one parameter: integers, ranges and dtypes.
std::vector<Value> values(const Node& node) {
  std::vector<Value> all;
  for (const Node& item : node.items()) {
    if (item.is_string()) {
      all.emplace_back(dtype(item));
    } else if (item.is_object()) {
      for (const std::int64_t value : range(item)) all.emplace_back(value);
    } else {
      all.emplace_back(item.integer(std::numeric_limits<std::int64_t>::min() / 2, kMost));
    }
  }
  if (all.empty()) node.fail("the list is empty");
  return all;
}

std::vector<Parameters> parameter_sets(const Node& problem) {
  std::vector<Parameters> sets{{}};
  const auto node = problem.find("parameters");
  if (!node) return sets;
  if (!node->is_object()) node->fail("an object of parameter names and values is expected here");
  for (const auto& [name, unused] : node->value().items()) {
    std::vector<Parameters> larger;
    for (const Value& value : values(node->at(name))) {
      for (const Parameters& set : sets) {
        larger.push_back(set);
        larger.back().emplace(name, value);
      }
    }
    if (larger.size() > kMostRequests) node->fail("over a million combinations");
    sets = std::move(larger);
  }
  return sets;
}

std::vector<PlanOptions> plan_options(const Node& problem) {
  const auto names = problem.find("template");
  const auto workspace = problem.find("max_workspace");
  std::vector<PlanOptions> all;
  for (const std::string& name : names ? strings(*names) : std::vector<std::string>{""}) {
    for (const Parameters& parameters : parameter_sets(problem)) {
      PlanOptions options{.template_name = name, .parameters = parameters};
      if (workspace) options.max_workspace = static_cast<std::size_t>(workspace->integer(0, kMost));
      all.push_back(options);
    }
  }
  return all;
}

std::vector<Problem> gemms(const Node& node) {
  node.expect_keys({"op", "M", "N", "K", "dtype", "dtype_b", "dtype_d", "lda", "ldb", "ldc", "ldd",
                    "template", "parameters", "max_workspace", "skip_impossible"});
  const auto ld = [&](const char* key) {
    const auto found = node.find(key);
    return found ? found->integer(0, kMost) : 0;
  };
  const auto optional_type = [&](const char* key) {
    const auto found = node.find(key);
    return found ? std::optional<DType>(dtype(*found)) : std::nullopt;
  };
  std::vector<Problem> problems;
  const std::vector<std::int64_t> rows = integers(node.at("M")), columns = integers(node.at("N")),
                                  depths = integers(node.at("K"));
  if (static_cast<double>(rows.size()) * static_cast<double>(columns.size()) *
          static_cast<double>(depths.size()) >
      static_cast<double>(kMostRequests)) {
    node.fail("over a million combinations of M, N and K");
  }
  for (const DType type : dtypes_of(node)) {
    for (const std::int64_t M : rows) {
      for (const std::int64_t N : columns) {
        for (const std::int64_t K : depths) {
          GemmProblem problem{.M = M,
                              .N = N,
                              .K = K,
                              .a = type,
                              .b = optional_type("dtype_b"),
                              .d = optional_type("dtype_d"),
                              .lda = ld("lda"),
                              .ldb = ld("ldb"),
                              .ldc = ld("ldc"),
                              .ldd = ld("ldd")};
          try {
            normalized(problem);
          } catch (const std::invalid_argument& error) {
            node.fail(error.what());
          }
          problems.push_back(problem);
        }
      }
    }
  }
  return problems;
}

Shape shape(const Node& node, const std::vector<std::int64_t>& extents) {
  if (extents.empty() || extents.size() > 4) node.fail("a shape has one to four extents");
  try {
    return Shape(extents.data(), static_cast<int>(extents.size()));
  } catch (const std::invalid_argument& error) {
    node.fail(error.what());
  }
}

Shape shape(const Node& node) {
  std::vector<std::int64_t> extents;
  for (const Node& item : node.items()) extents.push_back(item.integer(0, kMost));
  return shape(node, extents);
}

std::vector<Problem> adds(const Node& node) {
  node.expect_keys(
      {"op", "n", "shape", "dtype", "template", "parameters", "max_workspace", "skip_impossible"});
  const auto lengths = node.find("n"), shapes = node.find("shape");
  if (lengths.has_value() == shapes.has_value()) {
    node.fail(
        "an add has either 'n' (lengths) or 'shape' (a shape such as [64, 32], or a list of them)");
  }
  std::vector<Shape> all;
  if (lengths) {
    for (const std::int64_t n : integers(*lengths)) all.push_back(shape(*lengths, {n}));
  } else {
    if (!shapes->is_array())
      shapes->fail("a shape such as [64, 32], or a list of them, is expected here");
    const std::vector<Node> items = shapes->items();
    const bool several = !items.empty() && items.front().is_array();
    if (several) {
      for (const Node& item : items) all.push_back(shape(item));
    } else {
      all.push_back(shape(*shapes));
    }
  }
  std::vector<Problem> problems;
  for (const DType type : dtypes_of(node)) {
    for (const Shape& one : all) problems.emplace_back(AddProblem{.shape = one, .dtype = type});
  }
  return problems;
}

void append_problem(const Node& node, std::vector<ManifestRequest>& requests) {
  if (!node.is_object())
    node.fail("a problem is an object such as {\"op\": \"gemm\", \"M\": 1, …}");
  const Node op = node.at("op");
  std::vector<Problem> problems;
  if (op.string() == to_string(Operation::gemm)) {
    problems = gemms(node);
  } else if (op.string() == to_string(Operation::add)) {
    problems = adds(node);
  } else {
    op.fail("'" + op.string() + "' is not an operation; operations are gemm, add");
  }
  const auto skip = node.find("skip_impossible");
  const bool skip_impossible = skip && skip->boolean();
  const std::vector<PlanOptions> options = plan_options(node);
  if (requests.size() + problems.size() * options.size() > kMostRequests) {
    node.fail("the manifest has over a million combinations; split it into several");
  }
  for (const Problem& problem : problems) {
    for (const PlanOptions& option : options) {
      requests.push_back({.request = {problem, option}, .skip_impossible = skip_impossible});
    }
  }
}

// Recording appends one problem a line: no document as a whole, but each line is one.
bool is_line_by_line(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos || text[start] != '{') return false;
  const std::string_view line = text.substr(start, text.find('\n', start) - start);
  const Json first = Json::parse(line, nullptr, false);
  return first.is_object() && first.contains("op");
}

Manifest parse_lines(std::string_view text, const std::string& file) {
  Manifest manifest;
  std::size_t number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string place = file + ", line " + std::to_string(number);
    const Json document = parse_json(line, place);
    append_problem(Node(document, place), manifest.requests);
  }
  return manifest;
}

}  // namespace

Manifest parse_manifest(std::string_view text, const std::string& file) {
  if (is_line_by_line(text)) return parse_lines(text, file);
  const Json document = parse_json(text, file);
  const Node root(document, file);
  Manifest manifest;
  if (root.is_array()) {
    for (const Node& item : root.items()) append_problem(item, manifest.requests);
    return manifest;
  }
  root.expect_keys({"problems", "archs", "devices"});
  if (const auto problems = root.find("problems")) {
    if (!problems->is_array()) problems->fail("a list of problems is expected here");
    for (const Node& item : problems->items()) append_problem(item, manifest.requests);
  }
  if (const auto archs = root.find("archs")) manifest.archs = strings(*archs);
  if (const auto devices = root.find("devices")) manifest.devices = strings(*devices);
  return manifest;
}

Manifest read_manifest(const std::string& path) {
  return parse_manifest(read_text(path), path == "-" ? "standard input" : path);
}

}  // namespace tilec::command
