// What a process may use: control groups of both versions, in made-up folders, and the affinity
// mask.
#include "machine_limits.h"

#include <doctest/doctest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>

#include "process.h"

namespace tilec::command {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

// A machine with memory enough, and control groups as they are written here.
class Machine {
 public:
  Machine() { write("proc/meminfo", "MemTotal: 999999999 kB\nMemAvailable:   67108864 kB\n"); }

  void write(const std::string& name, const std::string& text) const {
    const fs::path file = sandbox_.path() / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  MachineLimits limits() const { return machine_limits(sandbox_.path()); }

 private:
  test::Sandbox sandbox_;
};

// This thread's affinity mask, as it was on destruction.
class Affinity {
 public:
  Affinity() { REQUIRE(sched_getaffinity(0, sizeof before_, &before_) == 0); }
  ~Affinity() { sched_setaffinity(0, sizeof before_, &before_); }

  int processors() const { return CPU_COUNT(&before_); }
  void keep_one() const {
    int first = 0;
    while (CPU_ISSET(first, &before_) == 0) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  }

 private:
  cpu_set_t before_{};
};

}  // namespace

TEST_CASE("without control groups: the affinity mask and the memory that is free") {
  const Machine machine;
  const Affinity affinity;
  CHECK(machine.limits().processors == affinity.processors());
  CHECK(machine.limits().memory_bytes == 64 * kGiB);
  affinity.keep_one();
  CHECK(machine.limits().processors == 1);
}

TEST_CASE("version 2: the smallest quota and the smallest limit of the group and those around it") {
  const Machine machine;
  machine.write("proc/self/cgroup", "0::/pod/container\n");
  machine.write("sys/fs/cgroup/pod/cpu.max", "50000 100000\n");
  machine.write("sys/fs/cgroup/pod/memory.max", "max\n");
  machine.write("sys/fs/cgroup/pod/container/cpu.max", "max 100000\n");
  machine.write("sys/fs/cgroup/pod/container/memory.max", "1073741824\n");
  CHECK(machine.limits().processors == 1);
  CHECK(machine.limits().memory_bytes == kGiB);
}

TEST_CASE("version 2: a container sees its own group as the mount") {
  const Machine machine;
  machine.write("proc/self/cgroup", "0::/\n");
  machine.write("sys/fs/cgroup/cpu.max", "100000 100000\n");
  machine.write("sys/fs/cgroup/memory.max", "2147483648\n");
  CHECK(machine.limits().processors == 1);
  CHECK(machine.limits().memory_bytes == 2 * kGiB);
}

TEST_CASE("version 1, also where the path is the host's and only the mount is here") {
  for (const char* group : {"", "docker/abc/"}) {
    const Machine machine;
    machine.write("proc/self/cgroup", "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/\n");
    const std::string folder = group;
    machine.write("sys/fs/cgroup/cpu/" + folder + "cpu.cfs_quota_us", "70000\n");
    machine.write("sys/fs/cgroup/cpu/" + folder + "cpu.cfs_period_us", "100000\n");
    machine.write("sys/fs/cgroup/memory/" + folder + "memory.limit_in_bytes", "1073741824\n");
    CHECK(machine.limits().processors == 1);
    CHECK(machine.limits().memory_bytes == kGiB);
  }
}

TEST_CASE("no limit, nonsense and a path out of the mount change nothing") {
  const Machine machine;
  const MachineLimits before = machine.limits();
  machine.write("proc/self/cgroup", "nonsense\n4:memory:/a\n3:cpu:/a\n0::/../..\n");
  machine.write("sys/fs/cgroup/cpu.max", "max 100000\n");
  machine.write("sys/fs/cgroup/memory.max", "\n");
  machine.write("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
  machine.write("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "0\n");
  machine.write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(machine.limits().processors == before.processors);
  CHECK(machine.limits().memory_bytes == before.memory_bytes);
}

TEST_CASE("a worker a processor, as far as the memory reaches, and at least one") {
  CHECK(default_jobs({.processors = 8, .memory_bytes = 64 * kGiB}) == 8);
  CHECK(default_jobs({.processors = 64, .memory_bytes = 3 * kGiB}) == 8);
  CHECK(default_jobs({.processors = 64, .memory_bytes = 1000}) == 1);
  CHECK(default_jobs({.processors = 1, .memory_bytes = 64 * kGiB}) == 1);
  CHECK(default_jobs({.processors = 100000}) == 1024);
}

}  // namespace tilec::command
