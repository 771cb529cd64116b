// Files that a person asked for by name: what is followed, whose folders are refused, limits.
#include "tilec/user_file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "doctest/doctest.h"
#include "support.h"
#include "tests/support/skip.h"

namespace tilec::cache::test {
namespace {

std::string text_of(const fs::path& file) {
  const Bytes bytes = read_file(file);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string replace(const fs::path& file, const std::string& text) {
  return replace_file(file, std::as_bytes(std::span(text)));
}

using Write = std::string (*)(const fs::path&, const std::string&);
const Write kWays[] = {
    replace, [](const fs::path& file, const std::string& text) { return append_line(file, text); }};

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int files_in(const fs::path& folder) {
  return static_cast<int>(std::distance(fs::directory_iterator(folder), {}));
}

constexpr unsigned kSomeone = 54321;

TEST_SUITE("cpu") {
  TEST_CASE("user file: written with the folders that are missing, replaced, appended to") {
    TemporaryFolder folder;
    CHECK(replace(folder / "a/b/file", "one") == "");
    CHECK(replace(folder / "a/b/file", "two") == "");
    CHECK(text_of(folder / "a/b/file") == "two");
    CHECK(append_line(folder / "c/lines", "{1}\n") == "");
    CHECK(append_line(folder / "c/lines", "{2}\n") == "");
    CHECK(text_of(folder / "c/lines") == "{1}\n{2}\n");
    write_text(folder / "c/passwords", "root:x:0:0\n");
    CHECK(mentions(append_line(folder / "c/passwords", "{3}\n"), "another kind of file"));
    CHECK(text_of(folder / "c/passwords") == "root:x:0:0\n");
    CHECK(files_in(folder / "a/b") == 1);  // nothing temporary is left
  }

  TEST_CASE("user file: a planted link's target is never written to") {
    TemporaryFolder folder;
    write_text(folder / "precious", "mine");
    for (const Write way : kWays) {
      fs::remove(folder / "link");
      fs::create_symlink(folder / "precious", folder / "link");
      way(folder / "link", "overwritten");
      CHECK(text_of(folder / "precious") == "mine");
      fs::remove(folder / "link");
      fs::create_symlink(folder / "not there", folder / "link");
      way(folder / "link", "made");
      CHECK_FALSE(fs::exists(folder / "not there"));
    }
    fs::remove(folder / "link");
    fs::create_symlink(folder / "precious", folder / "link");
    CHECK(mentions(append_line(folder / "link", "line\n"), "symbolic link"));
    fs::create_hard_link(folder / "precious", folder / "hard");
    CHECK(mentions(append_line(folder / "hard", "line\n"), "hard link"));
    CHECK(replace(folder / "hard", "replaced") == "");
    CHECK(text_of(folder / "precious") == "mine");
    REQUIRE(mkfifo((folder / "fifo").c_str(), 0600) == 0);
    CHECK(append_line(folder / "fifo", "line\n") != "");  // and does not wait for a reader
  }

  TEST_CASE("user file: folders that others can write to are refused, sticky ones are not") {
    TemporaryFolder folder;
    fs::create_directories(folder / "open/inner");
    for (const Write way : kWays) {
      for (const char* file : {"open/file", "open/inner/file", "open/new/file"}) {
        CHECK(chmod((folder / "open").c_str(), 0777) == 0);
        const std::string why = way(folder / file, "text");
        const bool told =
            mentions(why, "written to by others") || mentions(why, "others may write to");
        CHECK_MESSAGE(told, why);
        CHECK_MESSAGE(mentions(why, "`chmod go-w "), why);
        CHECK_FALSE(fs::exists(folder / file));
        CHECK(chmod((folder / "open").c_str(), 01777) == 0);
        CHECK(way(folder / file, "text") == "");
        fs::remove(folder / file);
        fs::remove(folder / "open/new");
      }
    }
  }

  TEST_CASE("user file: a stranger's folder, file or link") {
    if (!is_root()) return tilec::test::skip("needs root, to make files of another user");
    TemporaryFolder folder;
    fs::create_directories(folder / "theirs");
    fs::create_directories(folder / "sticky");
    fs::create_directories(folder / "mine");
    CHECK(chmod((folder / "sticky").c_str(), 01777) == 0);
    write_text(folder / "sticky/file", "theirs\n");
    fs::create_symlink(folder / "mine", folder / "sticky/link");
    fs::create_symlink(folder / "mine", folder / "sticky/own");
    fs::create_symlink(folder / "sticky/link", folder / "sticky/detour");
    for (const char* name : {"theirs", "sticky/file", "sticky/link"}) {
      CHECK(lchown((folder / name).c_str(), kSomeone, kSomeone) == 0);
    }
    for (const Write way : kWays) {
      CHECK(mentions(way(folder / "theirs/file", "text"), "belongs to user 54321"));
      CHECK(mentions(way(folder / "sticky/link/file", "text"), "link of user 54321"));
      CHECK(mentions(way(folder / "sticky/detour/file", "text"), "link of user 54321"));
      CHECK(files_in(folder / "mine") == 0);
      CHECK(way(folder / "sticky/own/file", "text") == "");
      fs::remove(folder / "mine/file");
    }
    CHECK(append_line(folder / "sticky/file", "line\n") != "");
    CHECK(text_of(folder / "sticky/file") == "theirs\n");
  }

  TEST_CASE("user file: the user's own links on the way are followed, as the system follows them") {
    TemporaryFolder folder;
    fs::create_directories(folder / "deep/inner");
    fs::create_directory_symlink("deep", folder / "relative");
    fs::create_directory_symlink("../relative/inner", folder / "deep/up");
    fs::create_directory_symlink(folder / "deep/up", folder / "absolute");
    fs::create_directory_symlink("yet to come", folder / "dangling");
    fs::create_directory_symlink("loop", folder / "loop");
    for (const Write way : kWays) {
      CHECK(way(folder / "relative/one", "text") == "");
      CHECK(fs::exists(folder / "deep/one"));
      CHECK(way(folder / "absolute/./two", "text") == "");
      CHECK(fs::exists(folder / "deep/inner/two"));
      CHECK(way(folder / "absolute/../three", "text") == "");  // above where the link leads
      CHECK(fs::exists(folder / "deep/three"));
      CHECK(way(folder / "dangling/four", "text") == "");
      CHECK(fs::exists(folder / "yet to come/four"));
      CHECK(mentions(way(folder / "loop/five", "text"), "loop can't be opened: Too many levels"));
      for (const char* made : {"deep/one", "deep/inner/two", "deep/three", "yet to come"}) {
        CHECK(fs::remove_all(folder / made) > 0);
      }
    }
  }

  TEST_CASE("user file: a limit on the size of files is a failure, not the program's end") {
    TemporaryFolder folder;
    const pid_t child = fork();
    if (child == 0) {
      const rlimit limit{4096, 4096};
      setrlimit(RLIMIT_FSIZE, &limit);
      const std::string large(8192, 'x'), half(3000, 'y');
      int wrong = replace(folder / "file", large).empty() ? 1 : 0;
      wrong |= append_line(folder / "lines", large).empty() ? 2 : 0;
      wrong |= append_line(folder / "lines", half).empty() ? 0 : 4;
      wrong |= append_line(folder / "lines", half).empty() ? 8 : 0;
      wrong |= text_of(folder / "lines") == half ? 0 : 16;  // no half line
      wrong |= files_in(folder.path()) == 1 ? 0 : 32;
      struct sigaction action {};
      sigaction(SIGXFSZ, nullptr, &action);
      sigset_t blocked, pending;
      pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
      sigpending(&pending);
      const bool untouched = action.sa_handler == SIG_DFL && !sigismember(&blocked, SIGXFSZ) &&
                             !sigismember(&pending, SIGXFSZ);
      _exit(wrong | (untouched ? 0 : 64));
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
}

}  // namespace
}  // namespace tilec::cache::test
