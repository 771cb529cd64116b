// The stress program's vandal: does to a cache what disks, people and other programs do. Everything
// but the locks is fair game. Belongs to one thread.
#pragma once

#include <cstdint>
#include <system_error>

#include "support.h"

namespace tilec::cache::test {

class Vandal {
 public:
  // `own_disk`: the root's file system is the test's own, and may be filled.
  Vandal(fs::path root, bool own_disk, unsigned seed);

  void strike();
  void tidy();
  std::uint64_t strikes() const { return strikes_; }

 private:
  fs::path filler() const { return root_.parent_path() / "filler"; }
  // A shard of the root, or a file of a folder; empty if there is none.
  fs::path any_of(const fs::path& folder, bool shards);
  void damage(const fs::path& path);
  void damage_entry(const fs::path& entry);
  void fill_disk();

  fs::path root_;
  bool own_disk_;
  int filler_turns_ = 0;
  std::uint64_t strikes_ = 0;
  Random random_;
  std::error_code ignored_;
};

}  // namespace tilec::cache::test
