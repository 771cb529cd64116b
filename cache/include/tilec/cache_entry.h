// What the cache keeps: a compiled kernel (the payload) and what is known of it (the metadata), and
// the reasons for which a look-up did not find it. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tilec/cache_key.h"

namespace tilec::cache {

// One kernel function of the payload. 0: unknown, or none.
struct EntryPoint {
  std::string name{};  // as the driver looks it up
  int registers = 0;
  int static_shared_bytes = 0;
  int local_bytes = 0;  // stack frame of a thread
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
  int max_threads = 0;  // of a block, from launch bounds; 0: not told, a device that loads it knows

  bool operator==(const EntryPoint&) const = default;
};

struct Metadata {
  std::string kind{};  // "cubin", "ptx" or "host"
  std::string template_name{};
  std::map<std::string, std::string> parameters{};
  std::string target{};  // "sm_90a" of a cubin, "compute_90" of a ptx, "host-…" of a host object
  std::vector<EntryPoint> entries{};
  std::string builder{};  // the compiler's full build: "nvrtc-13.0.88"; see valid_builder()
  int least_driver = 0;   // 13000 for 13.0; 0: any
  std::uint64_t source_bytes = 0;
  double build_seconds = 0;                    // kept to the microsecond
  std::string description{};                   // the problem, in words
  std::string log{};                           // the compiler's
  std::map<std::string, std::string> notes{};  // whatever else the caller wants back

  bool operator==(const Metadata&) const = default;
};

// A builder is part of a file name: 1 to 64 of [A-Za-z0-9._+-], the first a letter or digit.
bool valid_builder(std::string_view builder);

// Negative if a is older than b: runs of digits count as numbers (12.9 < 12.10 < 13.0), the rest
// as bytes.
int compare_builders(std::string_view a, std::string_view b);

// Where an entry was found.
enum class Origin { own_root, read_only_root, bundle, embedded_bundle };
std::string_view to_string(Origin origin);

struct Entry {
  Key key{};
  Metadata metadata{};
  std::vector<std::byte> payload{};
  Origin origin = Origin::own_root;
  std::filesystem::path path{};  // of the entry's file, or of its bundle; empty for an embedded one
};

enum class MissReason {
  never_built,    // no file of this key
  other_builder,  // files of this key exist, but not from the builder required, or all were skipped
  truncated,      // shorter or longer than its header says
  bad_magic,      // not an entry
  newer_format,   // written by a later tilec
  checksum,       // bytes changed
  malformed,      // checksums hold, but the metadata can't be read
  wrong_key,      // another entry's bytes under this name
  wrong_payload,  // the payload is not what its metadata claims
  wrong_target,   // a good entry, but not for the target that was asked for
  io_error,       // open or read failed; the file is left alone
  untrusted,      // owned or writable by someone else
  no_root,        // nothing to look into
};
std::string_view to_string(MissReason reason);

// True where the bytes themselves are wrong, so that removing the file is right.
bool is_damage(MissReason reason);

struct Miss {
  MissReason reason = MissReason::never_built;
  std::filesystem::path path{};  // empty where there is no file
  std::string detail{};          // a clause for a person
  bool removed = false;
};

// Checks that a payload is what its metadata claims: a cubin is an ELF of machine 190 whose flags
// hold the target's SM, a ptx names the target, a host object is an ELF of this kind of machine.
// Returns what is wrong, or an empty string.
std::string check_payload(const Metadata& metadata, const std::byte* payload, std::size_t size);

}  // namespace tilec::cache
