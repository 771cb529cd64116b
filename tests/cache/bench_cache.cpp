// What the cache costs: look-ups at 100 and at 100,000 entries, a warm hit of a 50 KB entry,
// publishing, sweeping, export and import. Prints medians. Not a test: run it on an idle machine,
// with TMPDIR on the disk that matters. `--entries N` changes the large number.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "entry_format.h"
#include "support.h"

namespace tilec::cache::test {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_of(const std::function<void()>& body) {
  const auto start = Clock::now();
  body();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void print(const char* what, double value, const char* unit) {
  std::printf("%-58s %10.1f %s\n", what, value, unit);
}

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(1);
}

// The first as publishing does it; the others the short way, which takes minutes less.
void fill(const Store& store, unsigned count) {
  const fs::path root = store.options().root;
  require(static_cast<bool>(store.publish(key_of(0), cubin_metadata(), cubin(1000, 0))), "publish");
  for (unsigned number = 1; number < count; ++number) {
    const fs::path path = entry_path(root, key_of(number));
    const Bytes payload = cubin(1000, number);
    Bytes entry = encode_entry_head(key_of(number), cubin_metadata(), payload);
    entry.insert(entry.end(), payload.begin(), payload.end());
    fs::create_directory(path.parent_path());
    write_file(path, entry);
  }
}

// Of 100 keys spread over all, each seen before.
double hit_time(const Store& store, unsigned count) {
  std::vector<double> times;
  for (int round = 0; round < 50; ++round) {
    for (unsigned i = 0; i < 100; ++i) {
      const Key key = key_of(std::uint64_t{i} * count / 100);
      bool hit = false;
      const double time = microseconds_of([&] { hit = static_cast<bool>(store.look_up(key)); });
      require(hit, "look up");
      if (round > 0) times.push_back(time);
    }
  }
  return median(std::move(times));
}

double miss_time(const Store& store) {
  std::vector<double> times;
  for (unsigned i = 0; i < 2000; ++i) {
    const Key key = key_of(10'000'000 + i);
    times.push_back(microseconds_of([&] { require(!store.look_up(key), "miss"); }));
  }
  return median(std::move(times));
}

double publish_time(const fs::path& root, bool sync, unsigned first) {
  StoreOptions options = quick(root);
  options.sync = sync;
  options.max_bytes = 0;
  const Store store(options);
  std::vector<double> times;
  for (unsigned i = 0; i < 100; ++i) {
    const Bytes payload = cubin(50'000, i);
    times.push_back(microseconds_of([&] {
      require(static_cast<bool>(store.publish(key_of(first + i), cubin_metadata(), payload)),
              "publish");
    }));
  }
  return median(std::move(times));
}

void measure_look_ups(const TemporaryFolder& folder, unsigned large) {
  double at_small = 0;
  for (const unsigned count : {100u, large}) {
    StoreOptions options = quick(folder / std::to_string(count));
    options.max_bytes = 0;
    const Store store(options);
    fill(store, count);
    const std::string at = " at " + std::to_string(count) + " entries";
    const double hit = hit_time(store, count);
    if (count == 100) at_small = hit;
    print(("hit, 1 KB payload," + at).c_str(), hit, "us");
    print(("miss," + at).c_str(), miss_time(store), "us");
    print(("publish without sync, 50 KB," + at).c_str(),
          publish_time(options.root, false, 20'000'000), "us");
    print(("publish with sync, 50 KB," + at).c_str(), publish_time(options.root, true, 30'000'000),
          "us");
    print(("opening a store," + at).c_str(), microseconds_of([&] { Store again(options); }), "us");
    print(("a step of the sweep," + at).c_str(), microseconds_of([&] { store.sweep(); }), "us");
    print(("a complete sweep," + at).c_str(),
          microseconds_of([&] { store.sweep({.complete = true}); }), "us");
    if (count != 100) print("hit, large to small", hit / at_small, "x");
  }
}

void measure_warm_hit(const TemporaryFolder& folder) {
  const Store store(quick(folder / "warm"));
  require(static_cast<bool>(store.publish(key_of(1), cubin_metadata(), cubin(50'000, 1))),
          "publish");
  std::vector<double> times;
  for (int i = 0; i < 5000; ++i) {
    times.push_back(
        microseconds_of([&] { require(static_cast<bool>(store.look_up(key_of(1))), "hit"); }));
  }
  print("warm hit of a 50 KB entry", median(std::move(times)), "us");
}

double disk_seconds(const fs::path& path, std::uint64_t bytes) {
  return 1e-6 * microseconds_of([&] {
           const std::string block(1 << 20, 'x');
           const int file = ::open(path.c_str(), O_WRONLY | O_CREAT, 0600);
           for (std::uint64_t done = 0; done < bytes; done += block.size()) {
             require(
                 ::write(file, block.data(), block.size()) == static_cast<ssize_t>(block.size()),
                 "write");
           }
           ::fsync(file);
           ::close(file);
         });
}

void measure_bundles(const TemporaryFolder& folder) {
  constexpr unsigned count = 1000;
  const Store from(quick(folder / "from"));
  for (unsigned number = 0; number < count; ++number) {
    require(
        static_cast<bool>(from.publish(key_of(number), cubin_metadata(), cubin(50'000, number))),
        "publish");
  }
  for (const bool sync : {false, true}) {
    StoreOptions source = quick(folder / "from");
    StoreOptions target = quick(folder / (sync ? "synced" : "quick"));
    source.sync = target.sync = sync;
    const Store out(source);
    const Store in(target);
    std::uint64_t bytes = 0;
    const double written =
        1e-6 * microseconds_of([&] { bytes = out.export_bundle(folder / "bundle").bytes; });
    const double read = 1e-6 * microseconds_of([&] {
                          require(in.import_bundle(folder / "bundle").entries == count, "import");
                        });
    const double megabytes = static_cast<double>(bytes) * 1e-6;
    const std::string how = sync ? ", with sync" : ", without sync";
    print(("export of 1,000 entries of 50 KB" + how).c_str(), megabytes / written, "MB/s");
    print(("import of 1,000 entries of 50 KB" + how).c_str(), megabytes / read, "MB/s");
    print(("export and import" + how).c_str(), 2 * megabytes / (written + read), "MB/s");
    if (sync)
      print("the disk: one file of the same size, with sync",
            megabytes / disk_seconds(folder / "plain", bytes), "MB/s");
  }
}

}  // namespace
}  // namespace tilec::cache::test

int main(int argc, char** argv) {
  using namespace tilec::cache::test;
  const bool given = argc == 3 && std::strcmp(argv[1], "--entries") == 0;
  if (argc != 1 && !given) {
    std::fprintf(stderr, "usage: %s [--entries N]\n", argv[0]);
    return 2;
  }
  const TemporaryFolder folder;
  measure_warm_hit(folder);
  measure_bundles(folder);
  measure_look_ups(folder,
                   given ? static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10)) : 100'000);
  return 0;
}
