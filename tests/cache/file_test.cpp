// Opening beneath a folder, with openat2 and on kernels or in sandboxes that refuse it.
#include "file.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <set>

#include "doctest/doctest.h"
#include "support.h"
#include "tests/support/skip.h"

namespace tilec::cache::test {
namespace {

bool forbid_new_calls(int error) {
  constexpr int openat2_number = 437;  // which older headers don't name
  return forbid_calls({openat2_number, SYS_getrandom}, error);
}

// 0 if opening does as it should.
int try_opening(const fs::path& folder) {
  const Descriptor root(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto error_of = [&](const std::string& name, int flags) {
    errno = 0;
    const Descriptor file = open_beneath(root.get(), name, flags);
    return file ? 0 : errno;
  };
  struct Case {
    const char* name;
    int flags;
    int error;
  };
  int number = 0;
  for (const Case& each :
       {Case{"file", O_RDONLY, 0}, Case{"real/inner", O_RDONLY, 0},
        Case{"real", O_RDONLY | O_DIRECTORY, 0}, Case{"missing", O_RDONLY, ENOENT},
        Case{"real/missing", O_RDONLY, ENOENT}, Case{"missing/inner", O_RDONLY, ENOENT},
        Case{"link", O_RDONLY, ELOOP}, Case{"away/inner", O_RDONLY, ELOOP},
        Case{"file/inner", O_RDONLY, ENOTDIR}}) {
    ++number;
    const int error = error_of(each.name, each.flags);
    // One folder at a time, a file and a link in a folder's place look alike.
    const bool alike = each.error == ENOTDIR && error == ELOOP;
    if (error != each.error && !alike) return number;
  }
  const Descriptor made = open_beneath(root.get(), "real/made", O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (!made || (::fcntl(made.get(), F_GETFD) & FD_CLOEXEC) == 0) return 100;
  const Store store(quick(folder / "cache"));
  if (!store.publish(key_of(1), cubin_metadata(), cubin()) || !store.look_up(key_of(1))) return 101;
  return store.lock(key_of(1), {}).held() ? 0 : 102;
}

void make_tree(const fs::path& folder) {
  fs::create_directories(folder / "real");
  write_text(folder / "file", "x");
  write_text(folder / "real/inner", "x");
  fs::create_symlink(folder / "file", folder / "link");
  fs::create_directory_symlink(folder / "real", folder / "away");
}

TEST_SUITE("cpu") {
  TEST_CASE("opening follows no link") {
    const TemporaryFolder folder;
    make_tree(folder.path());
    CHECK(try_opening(folder.path()) == 0);
  }

  TEST_CASE("the same without the newer system calls") {
    for (const int error : {ENOSYS, EPERM}) {
      CAPTURE(error);
      const TemporaryFolder folder;
      make_tree(folder.path());
      constexpr int no_filter = 200;
      const int result = in_child(
          [&] { return forbid_new_calls(error) ? try_opening(folder.path()) : no_filter; });
      if (result == no_filter) return tilec::test::skip("no seccomp filters here");
      CHECK(result == 0);
    }
  }

  TEST_CASE("random names do not repeat") {
    for (const bool random : {true, false}) {
      CHECK(in_child([&] {
              if (!random && !forbid_new_calls(ENOSYS)) return 0;
              std::set<std::string> names;
              for (int i = 0; i < 1000; ++i) names.insert(random_name());
              return names.size() == 1000 && names.begin()->size() == 32 ? 0 : 1;
            }) == 0);
    }
  }
}

}  // namespace
}  // namespace tilec::cache::test
