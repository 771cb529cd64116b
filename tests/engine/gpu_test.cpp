// Engines and plans on a real GPU: contexts, streams, captures, graphs, forks, faults, occupancy.
#include "gpu.h"

#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "tilec/buffer.h"

namespace tilec::test {
namespace {

constexpr std::int64_t kSize = 1 << 16;
const AddProblem kProblem{.shape = {kSize}};

// a + b = out on the device, with values that tell whether it was done.
class Sum {
 public:
  explicit Sum(const Device& device)
      : a_(device, values(1)), b_(device, values(7)), out_(device, values(-1)) {}

  AddArguments arguments() const { return {.a = a_.data(), .b = b_.data(), .out = out_.data()}; }
  float* out() const { return out_.data(); }
  bool done() const {
    const std::vector<float> a = values(1), b = values(7), out = out_.to_host();
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (out[i] != a[i] + b[i]) return false;
    }
    return true;
  }
  void clear(const Device& device) const { device.fill(out(), 0, kSize * sizeof(float)); }

 private:
  static std::vector<float> values(float first) {
    std::vector<float> list(kSize);
    std::iota(list.begin(), list.end(), first);
    return list;
  }
  DeviceBuffer<float> a_, b_, out_;
};

struct Fixture {
  explicit Fixture(const Gpu& on)
      : gpu(on), engine(Device::cuda(0), options_in(folder / "cache")) {}
  ~Fixture() { gpu.ctx_set_current(nullptr); }

  const Gpu& gpu;
  TemporaryFolder folder;
  Engine engine;
};

TEST_SUITE("gpu") {
  TEST_CASE("gpu: what the device tells of itself") {
    if (!Gpu::find()) return skip("no CUDA device");
    const Gpu& gpu = *Gpu::find();
    const Device device = Device::first_cuda();
    MESSAGE(device.name(), " ", device.target().name(), " ", device.facts().sm_count, " SMs");
    CHECK(device.can_run());
    CHECK(device.facts().sm_count > 0);
    CHECK(device.facts().shared_bytes_block >= 48 * 1024);
    CHECK(device.facts().threads_sm >= 1024);
    CHECK(gpu.current() == nullptr);
  }

  TEST_CASE("gpu: any context current, any stream: the sum is right, the context as it was") {
    if (!Gpu::find()) return skip("no CUDA device");
    const Gpu& gpu = *Gpu::find();
    const Fixture fixture(gpu);
    const Add add = fixture.engine.plan(kProblem);
    CUcontext second = nullptr;
    REQUIRE(gpu.ctx_create(&second, 0, 0) == CUDA_SUCCESS);
    REQUIRE(gpu.ctx_set_current(nullptr) == CUDA_SUCCESS);
    for (const CUcontext brought : {gpu.primary(), second}) {
      const Current of_stream(gpu, brought);
      // Memory belongs to the context that the work is in.
      const Sum sum(fixture.engine.device());
      const TestStream stream(gpu);
      for (const CUcontext current : {CUcontext{}, gpu.primary(), second}) {
        sum.clear(fixture.engine.device());
        {
          const Current now(gpu, current);
          add.run(sum.arguments(), stream);
          CHECK(gpu.current() == current);
        }
        stream.synchronize();
        CHECK(sum.done());
      }
      sum.clear(fixture.engine.device());
      add.run(sum.arguments());  // the null stream of the current context
      CHECK(gpu.ctx_synchronize() == CUDA_SUCCESS);
      CHECK(sum.done());
      CHECK(gpu.current() == brought);
    }
    CHECK(gpu.ctx_destroy(second) == CUDA_SUCCESS);
  }

  TEST_CASE("gpu: planned on one thread, run on fresh ones with no context") {
    if (!Gpu::find()) return skip("no CUDA device");
    const Gpu& gpu = *Gpu::find();
    const Fixture fixture(gpu);
    const Add add = fixture.engine.plan(kProblem);
    const Sum sum(fixture.engine.device());
    const Current primary(gpu, gpu.primary());
    const TestStream stream(gpu);
    for (const Stream where : {Stream{}, static_cast<Stream>(stream)}) {
      sum.clear(fixture.engine.device());
      CUcontext left = gpu.primary();
      std::thread([&] {
        add.run(sum.arguments(), where);
        fixture.engine.device().synchronize(where);
        left = gpu.current();
      }).join();
      CHECK(left == nullptr);
      CHECK(sum.done());
    }
  }

  TEST_CASE("gpu: the same plan on several streams at once gives the same bits") {
    if (!Gpu::find()) return skip("no CUDA device");
    const Gpu& gpu = *Gpu::find();
    const Fixture fixture(gpu);
    const Device& device = fixture.engine.device();
    constexpr std::int64_t M = 300, N = 200, K = 1000;
    const auto numbers = [](std::int64_t count, float step) {
      std::vector<float> list(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < list.size(); ++i)
        list[i] = std::sin(step * static_cast<float>(i));
      return list;
    };
    const std::vector<float> a = numbers(M * K, 0.7f), b = numbers(K * N, 1.3f);
    const DeviceBuffer<float> A(device, a), B(device, b);
    const Current primary(gpu, gpu.primary());
    for (const char* name : {"gemm_naive", "gemm_regn"}) {
      const Gemm gemm =
          fixture.engine.plan(GemmProblem{.M = M, .N = N, .K = K}, {.template_name = name});
      const DeviceBuffer<float> first(device, M * N);
      gemm.run(A.data(), B.data(), first.data());
      const std::vector<float> expected = first.to_host();
      for (int round = 0; round < 10; ++round) {
        const TestStream streams[4] = {TestStream(gpu), TestStream(gpu), TestStream(gpu),
                                       TestStream(gpu)};
        std::vector<DeviceBuffer<float>> results;
        for (const TestStream& stream : streams) {
          results.emplace_back(device, M * N);
          gemm.run(A.data(), B.data(), results.back().data(), stream);
        }
        for (const TestStream& stream : streams) stream.synchronize();
        for (const DeviceBuffer<float>& result : results) CHECK(result.to_host() == expected);
      }
    }
  }

  TEST_CASE("gpu: ordered behind a delayed producer on a non-blocking stream") {
    if (!Gpu::find()) return skip("no CUDA device");
    const Gpu& gpu = *Gpu::find();
    const Fixture fixture(gpu);
    const Add add = fixture.engine.plan(kProblem);
    const Sum first(fixture.engine.device());
    const std::vector<float> ones(kSize, 1);
    const DeviceBuffer<float> more(fixture.engine.device(), ones);
    const DeviceBuffer<float> result(fixture.engine.device(), ones);
    first.clear(fixture.engine.device());
    const Current primary(gpu, gpu.primary());
    const TestStream stream(gpu);
    const auto sleep = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(300)); };
    REQUIRE(gpu.launch_host_function(stream, sleep, nullptr) == CUDA_SUCCESS);
    add.run(first.arguments(), stream);
    add.run({.a = first.out(), .b = more.data(), .out = result.data()}, stream);
    std::vector<float> values(kSize);
    fixture.engine.device().copy_to_host(values.data(), result.data(), kSize * sizeof(float),
                                         stream);
    for (std::size_t i = 0; i < values.size(); ++i) {
      REQUIRE(values[i] == static_cast<float>(2 * i + 9));
    }
  }

  TEST_CASE("gpu: the first plan inside a stream capture; the graph outlives engine and plan") {
    if (!Gpu::find()) return skip("no CUDA device");
    const Gpu& gpu = *Gpu::find();
    for (const CUstreamCaptureMode mode :
         {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
          CU_STREAM_CAPTURE_MODE_RELAXED}) {
      CAPTURE(static_cast<int>(mode));
      std::optional<Fixture> fixture(std::in_place, gpu);
      const Device device = fixture->engine.device();
      const Sum sum(device);
      const Current primary(gpu, gpu.primary());
      const TestStream stream(gpu);
      REQUIRE(gpu.stream_begin_capture(stream, mode) == CUDA_SUCCESS);
      {
        // A kernel that this process has not loaded before: compiled and loaded now.
        const Add add = fixture->engine.plan(
            kProblem, {.template_name = "add_tiled",
                       .parameters = {{"TILE", 16}, {"BLOCK", 96 + 32 * static_cast<int>(mode)}}});
        CHECK(add.origin() == Origin::compiler);
        add.run(sum.arguments(), stream);
        const Gemm gemm = fixture->engine.plan(
            GemmProblem{.M = 64, .N = 64, .K = 64, .a = f64},
            {.template_name = "gemm_regn",
             .parameters = {{"TILE", 64}, {"TN", 8}, {"PAD", static_cast<int>(mode)}}});
        CHECK(gemm.info().launches[0].shape.shared_bytes > 48 * 1024);
      }
      CUgraph graph = nullptr;
      REQUIRE(gpu.stream_end_capture(stream, &graph) == CUDA_SUCCESS);
      CHECK_FALSE(sum.done());
      fixture.reset();
      REQUIRE(gpu.ctx_set_current(gpu.primary()) == CUDA_SUCCESS);
      CUgraphExec executable = nullptr;
      REQUIRE(gpu.graph_instantiate(&executable, graph, 0) == CUDA_SUCCESS);
      for (int replay = 0; replay < 3; ++replay) {
        sum.clear(device);
        REQUIRE(gpu.graph_launch(executable, stream) == CUDA_SUCCESS);
        stream.synchronize();
        CHECK(sum.done());
      }
      gpu.graph_exec_destroy(executable);
      gpu.graph_destroy(graph);
    }
  }

  TEST_CASE("gpu: over 48 KB of shared memory, in both contexts") {
    if (!Gpu::find()) return skip("no CUDA device");
    const Gpu& gpu = *Gpu::find();
    const Fixture fixture(gpu);
    constexpr std::int64_t n = 96;
    const Gemm gemm = fixture.engine.plan(
        GemmProblem{.M = n, .N = n, .K = n, .a = f64},
        {.template_name = "gemm_regn", .parameters = {{"TILE", 64}, {"TN", 8}}});
    CUcontext second = nullptr;
    REQUIRE(gpu.ctx_create(&second, 0, 0) == CUDA_SUCCESS);
    for (const CUcontext context : {gpu.primary(), second}) {
      const Current now(gpu, context);
      const std::vector<double> twos(n * n, 2);
      const DeviceBuffer<double> A(fixture.engine.device(), twos);
      const DeviceBuffer<double> D(fixture.engine.device(), twos);
      gemm.run(A.data(), A.data(), D.data());
      const std::vector<double> result = D.to_host();
      CHECK(std::count(result.begin(), result.end(), 4.0 * n) == n * n);
    }
    REQUIRE(gpu.ctx_set_current(nullptr) == CUDA_SUCCESS);
    CHECK(gpu.ctx_destroy(second) == CUDA_SUCCESS);
  }

  TEST_CASE("gpu: warm plans, trims and relaunches") {
    if (!Gpu::find()) return skip("no CUDA device");
    const Gpu& gpu = *Gpu::find();
    const Fixture fixture(gpu);
    const Sum sum(fixture.engine.device());
    const Add held = fixture.engine.plan(kProblem);
    for (int i = 0; i < 3; ++i) {
      sum.clear(fixture.engine.device());
      fixture.engine.plan(kProblem).run(sum.arguments());
      CHECK(sum.done());
      fixture.engine.trim();
      sum.clear(fixture.engine.device());
      held.run(sum.arguments());
      CHECK(sum.done());
    }
    CHECK(fixture.engine.stats().compiles == 1);
  }

  TEST_CASE("gpu: the occupancy told is the driver's") {
    if (!Gpu::find()) return skip("no CUDA device");
    const Gpu& gpu = *Gpu::find();
    const Fixture fixture(gpu);
    const Current primary(gpu, gpu.primary());
    const cache::Store store({.root = fixture.folder / "cache"});
    const DeviceFacts& facts = fixture.engine.device().facts();
    const auto compare = [&](const LaunchInfo& launch) {
      CAPTURE(launch.template_name);
      CAPTURE(describe(launch.parameters));
      const cache::LookUp found = store.look_up(*cache::Key::parse(launch.key));
      REQUIRE(found);
      CUlibrary library = nullptr;
      CUkernel kernel = nullptr;
      CUfunction function = nullptr;
      REQUIRE(gpu.library_load_data(&library, found.entry->payload.data(), nullptr, nullptr, 0,
                                    nullptr, nullptr, 0) == CUDA_SUCCESS);
      REQUIRE(gpu.library_get_kernel(&kernel, library, launch.entry.c_str()) == CUDA_SUCCESS);
      REQUIRE(gpu.kernel_get_function(&function, kernel) == CUDA_SUCCESS);
      const int shared = static_cast<int>(launch.shape.shared_bytes);
      REQUIRE(gpu.function_set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                         shared) == CUDA_SUCCESS);
      int registers = 0, blocks = 0;
      gpu.function_get_attribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
      CHECK(registers == launch.registers);
      REQUIRE(gpu.occupancy(&blocks, function, static_cast<int>(launch.shape.threads()),
                            static_cast<std::size_t>(shared)) == CUDA_SUCCESS);
      CHECK(launch.occupancy ==
            doctest::Approx(static_cast<double>(blocks) *
                            static_cast<double>(launch.shape.threads()) / facts.threads_sm));
      gpu.library_unload(library);
    };
    for (const DType type : {f32, f64, f16}) {
      for (const Parameters& parameters :
           {Parameters{{"TILE", 16}, {"TN", 1}}, Parameters{{"TILE", 32}, {"TN", 4}},
            Parameters{{"TILE", 32}, {"TN", 1}}, Parameters{{"TILE", 48}, {"TN", 6}},
            Parameters{{"TILE", 64}, {"TN", 8}}, Parameters{{"TILE", 24}, {"TN", 3}}}) {
        const Gemm gemm =
            fixture.engine.plan(GemmProblem{.M = 256, .N = 256, .K = 256, .a = type},
                                {.template_name = "gemm_regn", .parameters = parameters});
        compare(gemm.info().launches[0]);
      }
    }
    for (const int block : {1, 96, 256, 1024}) {
      compare(fixture.engine
                  .plan(kProblem,
                        {.template_name = "add_elementwise", .parameters = {{"BLOCK", block}}})
                  .info()
                  .launches[0]);
    }
  }

  TEST_CASE("gpu: PTX for an earlier architecture stands in, and for PTX that the driver rejects") {
    if (!Gpu::find()) return skip("no CUDA device");
    const Gpu& gpu = *Gpu::find();
    const Fixture fixture(gpu);
    Messages messages;
    Options options = fixture.engine.options();
    options.logger = messages.logger();
    Engine(offline("compute_75"), options).plan(kProblem);
    const std::string newest = "compute_" + std::to_string(fixture.engine.device().target().sm());
    publish_made_up(Engine(offline(newest.c_str()), options), kProblem);
    options.cache_policy = CachePolicy::must_hit;
    const Engine engine(fixture.engine.device(), options);
    const Add add = engine.plan(kProblem);
    CHECK(add.info().launches[0].target == "compute_75");
    CHECK(contains(messages.all_warnings(), "the CUDA driver ("));
    CHECK(contains(messages.all_warnings(), "does not take add_elementwise"));
    const Sum sum(engine.device());
    add.run(sum.arguments());
    CHECK(sum.done());
  }

  TEST_CASE("gpu: a forked child gets a clear error, the parent goes on") {
    if (!Gpu::find()) return skip("no CUDA device");
    const Gpu& gpu = *Gpu::find();
    const Fixture fixture(gpu);
    const Add add = fixture.engine.plan(kProblem);
    const Sum sum(fixture.engine.device());
    CHECK(in_child([&] {
            int wrong = 0;
            for (const std::function<void()>& call : std::vector<std::function<void()>>{
                     [&] { add.run(sum.arguments()); },
                     [&] { fixture.engine.device().synchronize(); },
                     [] { Device::first_cuda(); },
                 }) {
              try {
                call();
                ++wrong;
              } catch (const Error& error) {
                wrong += error.kind() != ErrorKind::driver || !contains(error.what(), "forked");
              }
            }
            return wrong;
          }) == 0);
    add.run(sum.arguments());
    CHECK(sum.done());
  }

  TEST_CASE("gpu: an out-of-memory error names the bytes") {
    if (!Gpu::find()) return skip("no CUDA device");
    const Device device = Device::first_cuda();
    const Error error = error_of([&] { device.allocate(std::size_t{1} << 46); });
    CHECK(error.kind() == ErrorKind::driver);
    CHECK(contains(error.what(), "70368744177664 bytes"));
    CHECK(contains(error.what(), "CUDA_ERROR_OUT_OF_MEMORY"));
    const Error none = error_of([] { Device::cuda(999); });
    CHECK(none.kind() == ErrorKind::invalid_argument);
  }

  TEST_CASE("gpu: a kernel's memory fault is named when it shows, and later as a possible cause") {
    if (!Gpu::find()) return skip("no CUDA device");
    const TemporaryFolder folder;
    // In a process of its own: the fault is the end of its context.
    const Ended ended = run({.arguments = {"fault"},
                             .environment = {{"TILEC_CACHE_DIR", (folder / "cache").string()}}});
    CHECK(ended.status == 0);
    CHECK_MESSAGE(contains(ended.output, "cuStreamSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS"),
                  ended.output);
    CHECK(contains(ended.output, "an earlier asynchronous fault of this program may be the cause"));
    CHECK(contains(ended.output, "second error=driver: cuLaunchKernel failed: CUDA_ERROR_"));
  }

  TEST_CASE("gpu: static engines, plans and buffers end in silence") {
    if (!Gpu::find()) return skip("no CUDA device");
    const TemporaryFolder folder;
    const Ended ended = run({.arguments = {"static", "device=cuda"},
                             .environment = {{"TILEC_CACHE_DIR", (folder / "cache").string()}}});
    CHECK(ended.status == 0);
    CHECK(ended.output == "");
  }

  TEST_CASE("gpu: two GPUs") {
    if (!Gpu::find()) return skip("no CUDA device");
    const Gpu& gpu = *Gpu::find();
    int count = 0;
    gpu.device_count(&count);
    if (count < 2) return skip("one CUDA device only");
    const Fixture fixture(gpu);
    const Engine other(Device::cuda(1), fixture.engine.options());
    const Sum here(fixture.engine.device()), there(other.device());
    const Add on_first = fixture.engine.plan(kProblem), on_second = other.plan(kProblem);
    CHECK(on_second.origin() == Origin::disk);
    CUcontext of_second = nullptr;
    REQUIRE(gpu.primary_ctx_retain(&of_second, 1) == CUDA_SUCCESS);
    const Current now(gpu, of_second);
    on_first.run(here.arguments());
    fixture.engine.device().synchronize();
    CHECK(here.done());
    on_second.run(there.arguments());
    other.device().synchronize();
    CHECK(there.done());
    const TestStream stream(gpu);
    const Error error = error_of([&] { on_first.run(here.arguments(), stream); });
    CHECK(contains(error.what(), "the stream belongs to cuda:1, the plan to cuda:0"));
    CHECK(gpu.current() == of_second);
  }
}

}  // namespace
}  // namespace tilec::test
