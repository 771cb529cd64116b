// Every barrier, guard and index term of every template, altered one at a time: the tables of the
// host device must notice. What they do not notice is listed, with the reason, in survivors.txt; an
// entry there that is noticed after all, or no longer exists, fails too.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>

#include "tests/kernels/mutant_trial.h"
#include "tests/kernels/mutation.h"

namespace tilec::test {
namespace {

// An alteration of a template, or of what stands around it, and how survivors.txt calls it.
struct Alteration {
  std::string subject;  // "gemm_regn", "numeric.h in add_tiled"
  Mutant mutant;
  KernelTemplate kernel;
};

struct Explanation {
  std::string subject, was, is, why;
  std::string place() const { return subject + "\n  was: " + was + "\n  is:  " + is; }
};

// Paragraphs of four lines: template, was, is, why; lines that start with # are for the reader.
std::vector<Explanation> explanations() {
  std::ifstream file(TILEC_SURVIVORS);
  REQUIRE_MESSAGE(file, "no file ", TILEC_SURVIVORS);
  std::vector<Explanation> list;
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (line.empty() || line.starts_with('#')) continue;
    REQUIRE_MESSAGE(colon != std::string::npos, "survivors.txt: ", line);
    const std::string field = line.substr(0, colon);
    const std::size_t at = std::min(line.find_first_not_of(' ', colon + 1), line.size());
    if (field == "template") list.emplace_back();
    REQUIRE_MESSAGE(!list.empty(), "survivors.txt: ", line);
    Explanation& last = list.back();
    std::string* const text = field == "template" ? &last.subject
                              : field == "was"    ? &last.was
                              : field == "is"     ? &last.is
                              : field == "why"    ? &last.why
                                                  : nullptr;
    REQUIRE_MESSAGE(text != nullptr, "survivors.txt: ", line);
    *text = line.substr(at);
  }
  return list;
}

std::vector<Alteration> source_alterations(const KernelTemplate& shipped) {
  std::vector<Alteration> list;
  for (Mutant& mutant : mutants(shipped.source)) {
    KernelTemplate kernel = shipped;
    kernel.source = mutant.text;
    list.push_back({shipped.name, std::move(mutant), std::move(kernel)});
  }
  return list;
}

// One function of a header that templates share.
std::vector<Alteration> header_alterations(const KernelTemplate& shipped, const std::string& header,
                                           const std::string& function) {
  const std::string name = "tilec/" + header;
  const std::string& text = std::ranges::find(device_headers(), name, &Header::name)->text;
  const std::size_t first = text.find("__device__ inline " + function);
  REQUIRE(first != std::string::npos);
  std::vector<Alteration> list;
  for (Mutant& mutant : mutants(text, first, text.find("\n}\n", first))) {
    KernelTemplate kernel = shipped;
    kernel.headers.push_back({name, mutant.text});
    list.push_back({header + " in " + shipped.name, std::move(mutant), std::move(kernel)});
  }
  return list;
}

// Fewer blocks, threads or bytes than the kernel needs.
std::vector<Alteration> launch_alterations(const KernelTemplate& shipped) {
  using Change = std::function<void(LaunchShape&)>;
  std::vector<std::pair<std::string, Change>> changes = {
      {"grid x - 1", [](LaunchShape& shape) { shape.grid[0] -= shape.grid[0] > 1; }},
      {"block x - 1", [](LaunchShape& shape) { shape.block[0] -= shape.block[0] > 1; }},
  };
  if (shipped.operation == Operation::gemm) {
    changes.push_back({"grid y - 1", [](LaunchShape& s) { s.grid[1] -= s.grid[1] > 1; }});
    changes.push_back({"grid z - 1", [](LaunchShape& s) { s.grid[2] -= s.grid[2] > 1; }});
    changes.push_back({"block y - 1", [](LaunchShape& s) { s.block[1] -= s.block[1] > 1; }});
  }
  const LaunchShape usual = shipped.launch(shipped.operation == Operation::gemm
                                               ? Problem(normalized({.M = 64, .N = 64, .K = 64}))
                                               : Problem(AddProblem{.shape = {64}}),
                                           complete(shipped, f32, {}, Target::host()));
  if (usual.shared_bytes > 0) {
    changes.push_back({"shared bytes - 1", [](LaunchShape& s) { s.shared_bytes -= 1; }});
  }
  std::vector<Alteration> list;
  for (const auto& [name, change] : changes) {
    KernelTemplate kernel = shipped;
    kernel.launch = [launch = shipped.launch, change = change](const Problem& problem,
                                                               const Parameters& parameters) {
      LaunchShape shape = launch(problem, parameters);
      change(shape);
      return shape;
    };
    Mutant mutant{.line = 0, .was = "launch", .is = name, .text = {}};
    list.push_back({shipped.name, std::move(mutant), std::move(kernel)});
  }
  return list;
}

std::vector<Alteration> alterations(const KernelTemplate& shipped) {
  std::vector<Alteration> list = source_alterations(shipped);
  std::ranges::move(launch_alterations(shipped), std::back_inserter(list));
  if (shipped.source.find("tilec::aligned<") != std::string::npos) {
    std::ranges::move(header_alterations(shipped, "numeric.h", "bool aligned("),
                      std::back_inserter(list));
  }
  if (shipped.source.find("tilec::result(") != std::string::npos) {
    for (const char* function : {"long long products(", "T result("}) {
      std::ranges::move(header_alterations(shipped, "gemm_result.h", function),
                        std::back_inserter(list));
    }
  }
  return list;
}

// The template that an explanation speaks of.
std::string template_of(const Explanation& explained) {
  const std::size_t in = explained.subject.rfind(" in ");
  return in == std::string::npos ? explained.subject : explained.subject.substr(in + 4);
}

void hunt(Operation operation) {
  const Trials trials;
  std::set<std::string> survivors, known;
  std::size_t tried = 0, invalid = 0;
  for (const KernelTemplate& shipped : catalog()) {
    if (shipped.operation != operation) continue;
    REQUIRE_MESSAGE(trials.run({shipped}).front() == Outcome::survived, shipped.name,
                    " as it is fails the tables that mutants are tried with");
    const std::vector<Alteration> list = alterations(shipped);
    std::vector<KernelTemplate> kernels;
    for (const Alteration& one : list) kernels.push_back(one.kernel);
    const std::vector<Outcome> outcomes = trials.run(kernels);
    for (std::size_t i = 0; i < list.size(); ++i) {
      ++tried;
      if (outcomes[i] == Outcome::does_not_compile) ++invalid;
      if (outcomes[i] != Outcome::survived) continue;
      const Alteration& one = list[i];
      survivors.insert(Explanation{one.subject, one.mutant.was, one.mutant.is, {}}.place());
    }
    for (const Explanation& explained : explanations()) {
      const bool this_one =
          explained.subject == shipped.name || explained.subject.ends_with(" in " + shipped.name);
      if (this_one) known.insert(explained.place());
      CHECK_MESSAGE(!explained.why.empty(), "no reason: ", explained.place());
    }
  }
  for (const std::string& survivor : survivors) {
    CHECK_MESSAGE(known.contains(survivor), "nothing notices this mutant: ", survivor);
  }
  for (const std::string& explained : known) {
    CHECK_MESSAGE(survivors.contains(explained), "survivors.txt is stale: ", explained);
  }
  std::cout << tried << " mutants: " << tried - invalid - survivors.size() << " noticed, "
            << survivors.size() << " survived (all explained: "
            << (std::ranges::includes(known, survivors) ? "yes" : "NO") << "), " << invalid
            << " did not compile\n";
  CHECK(tried > 50);
  CHECK(invalid * 4 < tried);
}

TEST_CASE("survivors are explained, and of templates that exist" * doctest::test_suite("cpu")) {
  for (const Explanation& explained : explanations()) {
    CHECK_MESSAGE(!explained.why.empty(), "no reason: ", explained.place());
    CHECK_MESSAGE(std::ranges::count(catalog(), template_of(explained), &KernelTemplate::name) == 1,
                  "no such template: ", explained.place());
  }
}

TEST_SUITE("host") {
  TEST_CASE("mutants of the GEMM templates") {
    hunt(Operation::gemm);
  }
  TEST_CASE("mutants of the Add templates") {
    hunt(Operation::add);
  }
}

}  // namespace
}  // namespace tilec::test
