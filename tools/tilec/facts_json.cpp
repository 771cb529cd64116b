// DeviceFacts to JSON and back.
#include "facts_json.h"

#include <limits>

namespace tilec::command {

Json to_json(const DeviceFacts& facts) {
  return {{"name", facts.name},
          {"target", facts.target},
          {"sm_count", facts.sm_count},
          {"shared_bytes_block", facts.shared_bytes_block},
          {"shared_bytes_sm", facts.shared_bytes_sm},
          {"registers_sm", facts.registers_sm},
          {"threads_sm", facts.threads_sm},
          {"blocks_sm", facts.blocks_sm},
          {"l2_bytes", facts.l2_bytes},
          {"memory_gb_s", facts.memory_gb_s},
          {"clock_mhz", facts.clock_mhz}};
}

DeviceFacts facts_from_json(const Node& node) {
  node.expect_keys({"name", "target", "sm_count", "shared_bytes_block", "shared_bytes_sm",
                    "registers_sm", "threads_sm", "blocks_sm", "l2_bytes", "memory_gb_s",
                    "clock_mhz"});
  const std::string name = node.at("name").string();
  const std::string target = node.at("target").string();
  DeviceFacts facts;
  try {
    facts = typical_facts(Target::parse(target));
  } catch (const std::invalid_argument& error) {
    node.at("target").fail(error.what());
  }
  facts.name = name;
  const auto set = [&](const char* key, int& value) {
    constexpr int kMost = std::numeric_limits<int>::max();
    if (const auto found = node.find(key)) value = static_cast<int>(found->integer(1, kMost));
  };
  set("sm_count", facts.sm_count);
  set("shared_bytes_block", facts.shared_bytes_block);
  set("shared_bytes_sm", facts.shared_bytes_sm);
  set("registers_sm", facts.registers_sm);
  set("threads_sm", facts.threads_sm);
  set("blocks_sm", facts.blocks_sm);
  if (const auto found = node.find("l2_bytes")) {
    facts.l2_bytes = found->integer(1, std::numeric_limits<std::int64_t>::max());
  }
  const auto set_rate = [&](const char* key, double& value) {
    const auto found = node.find(key);
    if (!found) return;
    value = found->number();
    if (value <= 0) found->fail("a number above 0 is expected here");
  };
  set_rate("memory_gb_s", facts.memory_gb_s);
  set_rate("clock_mhz", facts.clock_mhz);
  return facts;
}

}  // namespace tilec::command
