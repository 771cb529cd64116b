// Targets, the limits of architectures, and the facts of common devices. The one place where
// architectures are told apart.
#include "tilec/target.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

namespace tilec {
namespace {

constexpr int kHostSm = 1000;

struct Architecture {
  int sm;
  int max_shared_bytes;  // of one block, opted in
  const char* typical;   // the shipped device that stands for it
};

// From the CUDA programming guide's table of compute capabilities.
constexpr int kKilobyte = 1024;
constexpr std::array<Architecture, 13> kArchitectures{{
    {75, 64 * kKilobyte, "t4"},
    {80, 163 * kKilobyte, "a100"},
    {86, 99 * kKilobyte, "a10"},
    {87, 163 * kKilobyte, "a100"},
    {88, 99 * kKilobyte, "a10"},
    {89, 99 * kKilobyte, "l4"},
    {90, 227 * kKilobyte, "h100"},
    {100, 227 * kKilobyte, "b200"},
    {101, 227 * kKilobyte, "b200"},
    {103, 227 * kKilobyte, "b200"},
    {110, 227 * kKilobyte, "b200"},
    {120, 99 * kKilobyte, "rtx5090"},
    {121, 99 * kKilobyte, "rtx5090"},
}};

// The newest architecture that is not newer than `sm`.
const Architecture& architecture(int sm) {
  const Architecture* best = &kArchitectures.front();
  for (const Architecture& known : kArchitectures) {
    if (known.sm <= sm) best = &known;
  }
  return *best;
}

// Made when first asked for: the program's static objects may plan before ours are there.
// clang-format off
const std::array<DeviceFacts, 9>& devices() {
  static const std::array<DeviceFacts, 9> all{{
    // name      target     SMs  block         SM            regs   thr   blk  L2 bytes    GB/s  MHz
    {"t4",      "sm_75",    40,   64 * 1024,   64 * 1024,   65536, 1024, 16,   4 << 20,   320,  1590},
    {"a100",    "sm_80",   108,  163 * 1024,  164 * 1024,   65536, 2048, 32,  40 << 20,  1555,  1410},
    {"a10",     "sm_86",    72,   99 * 1024,  100 * 1024,   65536, 1536, 16,   6 << 20,   600,  1695},
    {"l4",      "sm_89",    58,   99 * 1024,  100 * 1024,   65536, 1536, 24,  48 << 20,   300,  2040},
    {"rtx4090", "sm_89",   128,   99 * 1024,  100 * 1024,   65536, 1536, 24,  72 << 20,  1008,  2520},
    {"h100",    "sm_90a",  132,  227 * 1024,  228 * 1024,   65536, 2048, 32,  50 << 20,  3350,  1980},
    {"h200",    "sm_90a",  132,  227 * 1024,  228 * 1024,   65536, 2048, 32,  60 << 20,  4800,  1980},
    {"b200",    "sm_100a", 148,  227 * 1024,  228 * 1024,   65536, 2048, 32, 126 << 20,  8000,  1965},
    {"rtx5090", "sm_120a", 170,   99 * 1024,  100 * 1024,   65536, 1536, 24,  96 << 20,  1792,  2407},
  }};
  return all;
}
// clang-format on

[[noreturn]] void throw_not_a_target(std::string_view name) {
  throw std::invalid_argument("'" + std::string(name) +
                              "' is not a target; targets look like sm_80, sm_90a, compute_90 or " +
                              Target::host().name());
}

// Where targets of one architecture ('a') and of a family ('f') begin.
int least_sm_of(char suffix) {
  return suffix == 'a' ? 90 : suffix == 'f' ? 100 : 0;
}

[[noreturn]] void throw_no_such_suffix(const Target& target) {
  throw std::invalid_argument("'" + target.name() + "' is not a target: those that end in " +
                              target.suffix() + " begin with sm_" +
                              std::to_string(least_sm_of(target.suffix())) + target.suffix() +
                              "; " + target.plain().name() + " is one");
}

}  // namespace

Target Target::parse(std::string_view name) {
  Target target;
  target.name_ = name;
  std::string_view rest = name;
  if (name == host().name()) return host();
  if (rest.starts_with("sm_")) {
    rest.remove_prefix(3);
  } else if (rest.starts_with("compute_")) {
    target.kind_ = Kind::compute;
    rest.remove_prefix(8);
  } else {
    throw_not_a_target(name);
  }
  if (!rest.empty() && (rest.back() == 'a' || rest.back() == 'f')) {
    target.suffix_ = rest.back();
    rest.remove_suffix(1);
  }
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), target.sm_);
  if (error != std::errc() || end != rest.data() + rest.size() || target.sm_ < 50 ||
      target.sm_ >= kHostSm || rest.front() == '0') {
    throw_not_a_target(name);
  }
  if (target.sm_ < least_sm_of(target.suffix_)) throw_no_such_suffix(target);
  return target;
}

Target Target::host() {
  Target target;
  target.kind_ = Kind::host;
  target.sm_ = kHostSm;
#if defined(__x86_64__)
  target.name_ = "host-x86_64-sysv";
#elif defined(__aarch64__)
  target.name_ = "host-aarch64-aapcs64";
#else
#error "the host device's target has no name on this architecture"
#endif
  return target;
}

Target Target::ptx() const {
  return kind_ == Kind::sm ? parse("compute_" + name_.substr(std::string_view("sm_").size()))
                           : *this;
}

Target Target::plain() const {
  if (suffix_ == '\0') return *this;
  Target target = *this;
  target.suffix_ = '\0';
  target.name_.pop_back();
  return target;
}

std::optional<Target> Target::newest_ptx(std::span<const int> known) const {
  int best = 0;
  for (int sm : known) {
    if (sm <= sm_) best = std::max(best, sm);
  }
  if (kind_ == Kind::host || best == 0) return std::nullopt;
  return parse("compute_" + std::to_string(best));
}

std::vector<Target> Target::stand_ins() const {
  std::vector<Target> targets;
  if (kind_ != Kind::sm) return targets;
  for (auto known = kArchitectures.rbegin(); known != kArchitectures.rend(); ++known) {
    if (known->sm < sm_ && known->sm / 10 == sm_ / 10) {
      targets.push_back(parse("sm_" + std::to_string(known->sm)));
    }
  }
  for (auto known = kArchitectures.rbegin(); known != kArchitectures.rend(); ++known) {
    if (known->sm <= sm_) targets.push_back(parse("compute_" + std::to_string(known->sm)));
  }
  return targets;
}

int Target::max_shared_bytes() const {
  return kind_ == Kind::host ? 256 * kKilobyte : architecture(sm_).max_shared_bytes;
}

std::span<const DeviceFacts> shipped_device_facts() {
  return devices();
}

std::optional<DeviceFacts> find_device_facts(std::string_view name) {
  for (const DeviceFacts& device : devices()) {
    if (device.name == name) return device;
  }
  return std::nullopt;
}

DeviceFacts typical_facts(const Target& target) {
  DeviceFacts facts = *find_device_facts(architecture(target.sm()).typical);
  facts.target = target.name();
  if (target.kind() == Target::Kind::host) facts.name = "host";
  return facts;
}

int resident_blocks(const DeviceFacts& facts, int threads_block, int registers_thread,
                    std::int64_t shared_bytes_block) {
  constexpr int kWarp = 32, kRegisterUnit = 256;  // registers are given to warps in such units
  constexpr std::int64_t kReserved = 1024;        // shared memory the system takes of a block
  const int warps = (threads_block + kWarp - 1) / kWarp;
  int blocks = std::min(facts.blocks_sm, facts.threads_sm / (warps * kWarp));
  if (registers_thread > 0) {
    const int per_warp =
        (registers_thread * kWarp + kRegisterUnit - 1) / kRegisterUnit * kRegisterUnit;
    // An SM is four partitions; a warp's registers come from its own.
    const int warps_sm = facts.registers_sm / 4 / per_warp * 4;
    blocks = std::min(blocks, warps_sm / warps);
  }
  const std::int64_t shared = (shared_bytes_block + kReserved + 127) / 128 * 128;
  return static_cast<int>(std::min<std::int64_t>(blocks, facts.shared_bytes_sm / shared));
}

}  // namespace tilec
