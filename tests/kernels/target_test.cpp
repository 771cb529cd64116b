// Targets: names, what stands in for what, limits; the shipped devices; resident blocks.
#include "tilec/target.h"

#include <doctest/doctest.h>

#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace tilec::test {
namespace {

std::vector<std::string> names(const std::vector<Target>& targets) {
  std::vector<std::string> list;
  for (const Target& target : targets) list.push_back(target.name());
  return list;
}

TEST_SUITE("cpu") {
  TEST_CASE("target: names") {
    const struct {
      const char* name;
      Target::Kind kind;
      int sm;
      char suffix;
      const char* plain;
    } table[] = {
        {"sm_75", Target::Kind::sm, 75, '\0', "sm_75"},
        {"sm_90", Target::Kind::sm, 90, '\0', "sm_90"},
        {"sm_90a", Target::Kind::sm, 90, 'a', "sm_90"},
        {"sm_100f", Target::Kind::sm, 100, 'f', "sm_100"},
        {"sm_120a", Target::Kind::sm, 120, 'a', "sm_120"},
        {"compute_80", Target::Kind::compute, 80, '\0', "compute_80"},
        {"compute_90a", Target::Kind::compute, 90, 'a', "compute_90"},
        {"sm_999", Target::Kind::sm, 999, '\0', "sm_999"},
    };
    for (const auto& row : table) {
      CAPTURE(row.name);
      const Target target = Target::parse(row.name);
      CHECK(target.name() == row.name);
      CHECK(target.kind() == row.kind);
      CHECK(target.sm() == row.sm);
      CHECK(target.suffix() == row.suffix);
      CHECK(target.plain().name() == row.plain);
      CHECK(target.plain().suffix() == '\0');
      CHECK(Target::parse(row.name) == target);
    }
    CHECK(Target::parse("sm_90") != Target::parse("sm_90a"));
    CHECK(Target::parse(Target::host().name()) == Target::host());
    CHECK(Target::host().kind() == Target::Kind::host);
    CHECK(Target::host().plain() == Target::host());
    CHECK(Target::host().name().starts_with("host-"));
  }

  TEST_CASE("target: what is no name") {
    for (const char* bad :
         {"",       "sm",       "sm_",          "sm_a",    "sm_9",
          "sm_49",  "sm_090",   "sm_90b",       "sm_90aa", "sm_90 ",
          " sm_90", "sm_+90",   "sm_-90",       "SM_90",   "sm90",
          "90",     "compute_", "compute_1000", "sm_1000", "sm_99999999999999999999",
          "host",   "host-",    "host-vax",     "sm_9O",   "sm_90a,sm_80"}) {
      CAPTURE(bad);
      const std::string message = "'" + std::string(bad) +
                                  "' is not a target; targets look like sm_80, sm_90a, compute_90 "
                                  "or " +
                                  Target::host().name();
      CHECK_THROWS_WITH_AS(Target::parse(bad), message.c_str(), std::invalid_argument);
    }
  }

  TEST_CASE("target: a suffix that no architecture so old has") {
    CHECK_THROWS_WITH_AS(
        Target::parse("sm_89a"),
        "'sm_89a' is not a target: those that end in a begin with sm_90a; sm_89 is one",
        std::invalid_argument);
    CHECK_THROWS_WITH_AS(Target::parse("compute_90f"),
                         "'compute_90f' is not a target: those that end in f begin with sm_100f; "
                         "compute_90 is one",
                         std::invalid_argument);
    CHECK(Target::parse("sm_90a").suffix() == 'a');
    CHECK(Target::parse("sm_100f").suffix() == 'f');
  }

  TEST_CASE("target: the newest PTX that is not newer") {
    const std::vector<int> known{75, 80, 90, 100};
    CHECK(Target::parse("sm_120").newest_ptx(known)->name() == "compute_100");
    CHECK(Target::parse("sm_90a").newest_ptx(known)->name() == "compute_90");
    CHECK(Target::parse("sm_89").newest_ptx(known)->name() == "compute_80");
    CHECK(Target::parse("sm_70").newest_ptx(known) == std::nullopt);
    CHECK(Target::parse("sm_90").newest_ptx({}) == std::nullopt);
    CHECK(Target::host().newest_ptx(known) == std::nullopt);
  }

  TEST_CASE("target: stand-ins") {
    CHECK(names(Target::parse("sm_89").stand_ins()) ==
          std::vector<std::string>{"sm_88", "sm_87", "sm_86", "sm_80", "compute_89", "compute_88",
                                   "compute_87", "compute_86", "compute_80", "compute_75"});
    CHECK(names(Target::parse("sm_75").stand_ins()) == std::vector<std::string>{"compute_75"});
    CHECK(names(Target::parse("sm_90a").stand_ins()).front() == "compute_90");
    CHECK(Target::parse("compute_90").stand_ins().empty());
    CHECK(Target::host().stand_ins().empty());
  }

  TEST_CASE("target: shared memory of one block") {
    const std::vector<std::pair<const char*, int>> table = {
        {"sm_75", 64},   {"sm_80", 163},  {"sm_86", 99},  {"sm_89", 99},      {"sm_90", 227},
        {"sm_90a", 227}, {"sm_100", 227}, {"sm_120", 99}, {"compute_80", 163}};
    for (const auto& [name, kilobytes] : table) {
      CAPTURE(name);
      CHECK(Target::parse(name).max_shared_bytes() == kilobytes * 1024);
    }
    CHECK(Target::host().max_shared_bytes() >= 227 * 1024);
  }

  TEST_CASE("device facts: the shipped ones are whole and found by name") {
    std::set<std::string> seen;
    for (const DeviceFacts& facts : shipped_device_facts()) {
      CAPTURE(facts.name);
      CHECK(seen.insert(facts.name).second);
      CHECK(find_device_facts(facts.name) == facts);
      const Target target = Target::parse(facts.target);
      CHECK(facts.shared_bytes_block == target.max_shared_bytes());
      CHECK(facts.shared_bytes_sm > facts.shared_bytes_block - 1);
      CHECK(facts.sm_count > 0);
      CHECK(facts.threads_sm % 32 == 0);
      CHECK(facts.blocks_sm > 0);
      CHECK(facts.l2_bytes > 0);
      CHECK(facts.memory_gb_s > 0);
      CHECK(facts.clock_mhz > 0);
    }
    CHECK(find_device_facts("h200")->target == "sm_90a");
    CHECK(find_device_facts("no such") == std::nullopt);
  }

  TEST_CASE("device facts: a target's typical device") {
    const std::vector<std::pair<const char*, const char*>> table = {
        {"sm_75", "t4"},       {"sm_80", "a100"},  {"sm_86", "a10"},    {"sm_89", "l4"},
        {"sm_90", "h100"},     {"sm_90a", "h100"}, {"sm_100a", "b200"}, {"sm_120", "rtx5090"},
        {"sm_999", "rtx5090"}, {"sm_60", "t4"}};
    for (const auto& [name, device] : table) {
      CAPTURE(name);
      const DeviceFacts facts = typical_facts(Target::parse(name));
      CHECK(facts.name == device);
      CHECK(facts.target == name);
    }
    CHECK(typical_facts(Target::host()).name == "host");
  }

  TEST_CASE("resident blocks") {
    const DeviceFacts h100 = *find_device_facts("h100"), t4 = *find_device_facts("t4");
    // From NVIDIA's occupancy calculator.
    CHECK(resident_blocks(h100, 256, 32, 0) == 8);  // bound by threads: 2048
    CHECK(resident_blocks(h100, 32, 16, 0) == 32);  // by blocks
    CHECK(resident_blocks(h100, 256, 64, 0) == 4);  // by registers: 8 warps × 2048
    CHECK(resident_blocks(h100, 256, 65, 0) == 3);  // rounded up to 72 a thread
    CHECK(resident_blocks(h100, 128, 255, 0) == 2);
    CHECK(resident_blocks(h100, 128, 32, 100 * 1024) == 2);  // by shared memory
    CHECK(resident_blocks(h100, 128, 32, 227 * 1024) == 1);
    CHECK(resident_blocks(h100, 128, 32, 228 * 1024) == 0);
    CHECK(resident_blocks(t4, 1024, 64, 0) == 1);
    CHECK(resident_blocks(t4, 1024, 65, 0) == 0);
    CHECK(resident_blocks(h100, 100, 32, 0) == 16);  // 100 threads are four warps
  }
}

}  // namespace
}  // namespace tilec::test
