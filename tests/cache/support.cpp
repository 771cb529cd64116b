#include "support.h"

#include <elf.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace tilec::cache::test {

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "tilec-cache-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
  // Where other users' children work too.
  ::chmod(name.c_str(), 0755);
  path_ = fs::canonical(name);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Key key_of(std::uint64_t number) {
  return KeyHasher{}.field("number", std::to_string(number)).finish();
}

Bytes cubin(std::size_t size, unsigned seed, unsigned sm) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_OSABI] = 0x41;
  header.e_machine = 190;
  header.e_flags = 0x6000004 | sm << 8;
  Bytes out(std::max(size, sizeof header));
  std::uint32_t state = seed * 2654435761u + 1;
  for (std::byte& each : out) {
    state = state * 1664525u + 1013904223u;
    each = static_cast<std::byte>(state >> 24);
  }
  std::memcpy(out.data(), &header, sizeof header);
  return out;
}

Metadata cubin_metadata(const std::string& builder, unsigned sm) {
  Metadata out;
  out.kind = "cubin";
  out.template_name = "gemm_regn";
  out.parameters = {{"TILE", "64"}, {"TN", "8"}};
  out.target = "sm_" + std::to_string(sm);
  out.entries = {
      {.name = "gemm", .registers = 96, .static_shared_bytes = 8192, .max_threads = 256}};
  out.builder = builder;
  out.least_driver = 13000;
  out.source_bytes = 4321;
  out.build_seconds = 0.25;
  out.description = "gemm f32 1024 x 1024 x 1024";
  return out;
}

StoreOptions quick(const fs::path& root) {
  StoreOptions out;
  out.root = root;
  out.sync = false;
  return out;
}

Bytes read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void write_file(const fs::path& path, std::span<const std::byte> bytes) {
  // Truncating in place would make some file systems wait for the disk.
  fs::remove(path);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  out.close();
  ::chmod(path.c_str(), 0600);
}

void write_text(const fs::path& path, const std::string& text) {
  write_file(path, std::as_bytes(std::span(text)));
}

fs::path entry_path(const fs::path& root, const Key& key, const std::string& builder) {
  return root / key.hex().substr(0, 2) / (key.hex() + "." + builder);
}

std::vector<fs::path> leftovers(const fs::path& root) {
  std::vector<fs::path> out;
  for (const auto& each : fs::recursive_directory_iterator(root)) {
    if (each.path().filename().string().starts_with(".")) out.push_back(each.path());
  }
  return out;
}

int exit_status(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    int result = 255;
    try {
      result = body();
    } catch (...) {
    }
    ::_exit(result);
  }
  return exit_status(child);
}

int as_user(unsigned user, const std::function<int()>& body) {
  return as_user(user, user, body);
}

int as_user(unsigned user, unsigned group, const std::function<int()>& body) {
  return in_child([&] {
    if (::setgroups(0, nullptr) != 0 || ::setresgid(group, group, group) != 0 ||
        ::setresuid(user, user, user) != 0) {
      return 254;
    }
    // Else the process's own files in /proc stay root's.
    ::prctl(PR_SET_DUMPABLE, 1);
    return body();
  });
}

bool is_root() {
  return ::geteuid() == 0;
}

bool enter_user_namespace() {
  const std::string user = std::to_string(::geteuid());
  const std::string group = std::to_string(::getegid());
  if (::unshare(CLONE_NEWUSER) != 0) return false;
  const auto write = [](const char* path, const std::string& text) {
    std::ofstream out(path);
    out << text << std::flush;
    return out.good();
  };
  return write("/proc/self/setgroups", "deny") &&
         write("/proc/self/uid_map", user + " " + user + " 1") &&
         write("/proc/self/gid_map", group + " " + group + " 1");
}

bool forbid_calls(const std::vector<int>& numbers, int error) {
  const auto refuse = SECCOMP_RET_ERRNO | static_cast<unsigned>(error);
  std::vector<sock_filter> code{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const int number : numbers) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, refuse));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<unsigned short>(code.size()), code.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

int on_small_disk(const fs::path& folder, std::size_t bytes, const std::function<int()>& body) {
  constexpr int no_disk = 253;
  const int result = in_child([&] {
    if (!is_root() && !enter_user_namespace()) return no_disk;
    // Without a bound, tmpfs allows an inode for every other page of the machine's memory.
    const std::string limits = "size=" + std::to_string(bytes) + ",nr_inodes=8192,mode=0755";
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", folder.c_str(), "tmpfs", 0, limits.c_str()) != 0) {
      return no_disk;
    }
    return body();
  });
  return result == no_disk ? -1 : result;
}

}  // namespace tilec::cache::test
