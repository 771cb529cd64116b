// Plans on the host device: the same life of a plan, with kernels that really run.
#include <sys/resource.h>

#include <numeric>
#include <thread>

#include "support.h"
#include "tilec/buffer.h"

namespace tilec::test {
namespace {

constexpr std::int64_t kSize = 1000;
const AddProblem kProblem{.shape = {kSize}};

std::optional<Device> host_device() {
  try {
    return Device::host();
  } catch (const Error&) {
    return std::nullopt;  // built without
  }
}

std::vector<float> numbers(float first) {
  std::vector<float> values(kSize);
  std::iota(values.begin(), values.end(), first);
  return values;
}

void check_sum(const Add& add) {
  const std::vector<float> a = numbers(1), b = numbers(5);
  std::vector<float> out(kSize, -1);
  add.run(a.data(), b.data(), out.data());
  for (std::size_t i = 0; i < out.size(); ++i) REQUIRE(out[i] == a[i] + b[i]);
}

TEST_SUITE("host") {
  TEST_CASE("on host: compiled, cached, served from the disk, run") {
    const auto device = host_device();
    if (!device) return skip("no host device");
    const TemporaryFolder folder("cache with spaces, äöü and 日本語");
    Options options = options_in(folder / "cache");
    options.dump_dir = folder / "dump";
    std::string key;
    {
      const Engine engine(*device, options);
      const Add add = engine.plan(kProblem);
      key = add.key();
      const PlanInfo info = add.info();
      CHECK(info.origin == Origin::compiler);
      CHECK(info.launches[0].target == Target::host().name());
      CHECK(info.launches[0].occupancy == 0);
      CHECK(info.launches[0].registers == 0);
      CHECK(engine.stats().compiles == 1);
      check_sum(add);
      CHECK(fs::exists(folder / "dump" / (key + ".cu")));
      CHECK(fs::exists(folder / "dump" / (key + ".so")));
    }
    options.cache_policy = CachePolicy::must_hit;
    const Engine engine(*device, options);
    const Add add = engine.plan(kProblem);
    CHECK(add.origin() == Origin::disk);
    CHECK(add.key() == key);
    check_sum(add);
  }

  TEST_CASE("on host: in place, outliving the engine, on other threads") {
    const auto device = host_device();
    if (!device) return skip("no host device");
    const TemporaryFolder folder;
    std::optional<Add> add;
    {
      const Engine engine(*device, options_in(folder.path()));
      add = engine.plan(kProblem);
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([copy = *add] { check_sum(copy); });
    for (std::thread& thread : threads) thread.join();
    std::vector<float> a = numbers(1);
    const std::vector<float> b = numbers(2);
    add->run(a.data(), b.data(), a.data());
    for (std::size_t i = 0; i < a.size(); ++i) REQUIRE(a[i] == 2 * b[i] - 1);
  }

  TEST_CASE("on host: a kernel that does not compile") {
    const auto device = host_device();
    if (!device) return skip("no host device");
    const TemporaryFolder folder;
    const Engine engine(*device, options_in(folder.path()));
    engine.register_template(small_add("broken", "\n  no_such_function(args.n);"));
    const Error error = error_of([&] { engine.plan(kProblem, {.template_name = "broken"}); });
    CHECK(error.kind() == ErrorKind::compile);
    CHECK_MESSAGE(contains(error.what(), "/tilec/broken.cu:4"), error.what());
    CHECK(contains(error.what(), "no_such_function"));
    CHECK(contains(error.log(), "no_such_function"));
    CHECK(entries_in(folder.path()).empty());
    CHECK(engine.stats().failed_compiles == 1);
  }

  TEST_CASE("on host: a template of one's own, from a string") {
    const auto device = host_device();
    if (!device) return skip("no host device");
    const TemporaryFolder folder;
    const Engine engine(*device, options_in(folder.path()));
    KernelTemplate kernel =
        small_add("scaled",
                  "if (threadIdx.x < args.n) static_cast<T*>(args.out)[threadIdx.x] = "
                  "static_cast<const T*>(args.a)[threadIdx.x] * T(NUMBER);");
    kernel.launch = [](const Problem&, const Parameters&) {
      return LaunchShape{.block = {64, 1, 1}};
    };
    engine.register_template(kernel);
    const Add add = engine.plan(AddProblem{.shape = {3}},
                                {.template_name = "scaled", .parameters = {{"NUMBER", 7}}});
    const std::vector<float> a{1, 2, 3};
    std::vector<float> out(3);
    add.run(a.data(), a.data(), out.data());
    CHECK(out == std::vector<float>{7, 14, 21});
  }
}

TEST_SUITE("host tsan") {
  TEST_CASE("on host: many threads plan and run the same and different kernels") {
    const auto device = host_device();
    if (!device) return skip("no host device");
    const TemporaryFolder folder;
    const Engine engine(*device, options_in(folder.path()));
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        check_sum(
            engine.plan(kProblem, {.template_name = i % 2 == 0 ? "add_tiled" : "add_elementwise"}));
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(engine.stats().compiles == 2);
  }

  TEST_CASE("on host: a limit on the size of files is an error, not the program's end") {
    const auto device = host_device();
    if (!device) return skip("no host device");
    const TemporaryFolder folder;
    check_sum(Engine(*device, options_in(folder / "stocked")).plan(kProblem));
    for (const char* cache : {"empty", "stocked"}) {
      CAPTURE(std::string(cache));
      CHECK(in_child([&] {
              const rlimit limit{1024, 1024};
              setrlimit(RLIMIT_FSIZE, &limit);
              try {
                check_sum(Engine(Device::host(), options_in(folder / cache)).plan(kProblem));
                return 1;
              } catch (const Error&) {
                return 0;
              }
            }) == 0);
    }
  }
}

}  // namespace
}  // namespace tilec::test
