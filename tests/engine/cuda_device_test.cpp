// The CUDA device over a made-up driver: contexts, streams, captures, faults, what stays loaded.
#include <functional>
#include <thread>

#include "device/backend.h"
#include "device/driver.h"
#include "support.h"
#include "tests/support/fake_cuda.h"
#include "tilec/buffer.h"

namespace tilec::test {
namespace {

Stream stream_of(CUstream stream) {
  return stream;
}
Stream special(std::uintptr_t value) {
  return reinterpret_cast<Stream>(value);
}

std::shared_ptr<const LoadedKernel> load(const std::string& id, std::int64_t shared_bytes = 0,
                                         int device = 0, const std::string& entry = "kernel") {
  const std::vector<std::byte> image = made_up_cubin(90, id);
  return cuda_backend(device)->load(
      {.id = id, .entry = entry, .message = entry + " of " + id, .bytes = image}, shared_bytes);
}

void launch(const LoadedKernel& kernel, Stream stream, const LaunchShape& shape = {}) {
  const int argument = 0;
  cuda_backend(0)->launch(kernel, shape, &argument, stream);
}

// The thread's context and capture mode, which a call must leave as they were.
struct ThreadState {
  CUcontext current = fake_cuda::current();
  int depth = fake_cuda::stack_depth();
  CUstreamCaptureMode mode = fake_cuda::capture_mode();
  bool operator==(const ThreadState&) const = default;
};

TEST_SUITE("cpu tsan") {
  TEST_CASE("cuda device: what it tells of itself") {
    const Device device = Device::cuda(0);
    CHECK(device.name() == "cuda:0 (Fake GPU)");
    CHECK(device.target().name() == "sm_90a");
    CHECK(device.can_run());
    CHECK_FALSE(device.is_host());
    CHECK(device.facts().sm_count == 132);
    CHECK(device.facts().threads_sm == 2048);
    CHECK(device.facts().shared_bytes_block == 227 * 1024);
    CHECK(device.facts().memory_gb_s == doctest::Approx(4917).epsilon(0.001));
    CHECK(Device::named("cuda").name() == device.name());
    CHECK(Device::first_cuda().name() == device.name());
    CHECK(Device::named("cuda:1").target().name() == "sm_80");
    CHECK(Device::cuda(0).backend() == device.backend());
  }

  TEST_CASE("cuda device: devices that aren't there") {
    for (const int ordinal : {-1, 2, 1000}) {
      const Error error = error_of([&] { Device::cuda(ordinal); });
      CHECK(error.kind() == ErrorKind::invalid_argument);
      CHECK(contains(error.what(), "there is no cuda:" + std::to_string(ordinal)));
      CHECK(contains(error.what(), "2 CUDA devices (cuda:0 to cuda:1)"));
    }
    for (const char* name : {"cuda:", "cuda:x", "cuda:1x", "cuda:-1", "gpu", "", "CUDA"}) {
      const Error error = error_of([&] { Device::named(name); });
      CHECK(error.kind() == ErrorKind::invalid_argument);
      CHECK(contains(error.what(), std::string("'") + name + "' is not a device"));
    }
  }

  TEST_CASE("cuda device: which context a launch works in, whatever is current") {
    const auto kernel = load("contexts");
    const CUcontext primary = fake_cuda::primary(0), elsewhere = fake_cuda::primary(1);
    const CUcontext second = fake_cuda::create_context(0);
    const struct {
      const char* what;
      Stream stream;
      CUcontext brought;  // by the stream; null: a default stream
    } streams[] = {
        {"null", nullptr, nullptr},
        {"legacy", special(1), nullptr},
        {"per thread", special(2), nullptr},
        {"of the primary context", stream_of(fake_cuda::create_stream(primary)), primary},
        {"of a second context", stream_of(fake_cuda::create_stream(second)), second},
        {"of another device", stream_of(fake_cuda::create_stream(elsewhere)), elsewhere},
    };
    for (const CUcontext current : {CUcontext{}, primary, second, elsewhere}) {
      for (const auto& row : streams) {
        CAPTURE(row.what);
        CAPTURE(current);
        fake_cuda::reset();
        fake_cuda::set_current(current);
        const ThreadState before;
        if (row.brought == elsewhere) {
          const Error error = error_of([&] { launch(*kernel, row.stream); });
          CHECK(error.kind() == ErrorKind::invalid_argument);
          CHECK(contains(error.what(), "the stream belongs to cuda:1, the plan to cuda:0"));
          CHECK(fake_cuda::launches().empty());
        } else {
          launch(*kernel, row.stream);
          REQUIRE(fake_cuda::launches().size() == 1);
          const CUcontext by_default = current == second ? second : primary;
          CHECK(fake_cuda::launches()[0].context ==
                (row.brought != nullptr ? row.brought : by_default));
          CHECK(fake_cuda::launches()[0].stream == row.stream);
        }
        CHECK(ThreadState() == before);
      }
    }
    fake_cuda::set_current(nullptr);
  }

  TEST_CASE("cuda device: a run in the primary context makes two driver calls") {
    const auto kernel = load("calls");
    fake_cuda::set_current(fake_cuda::primary(0));
    fake_cuda::reset();
    launch(*kernel, nullptr);
    CHECK(fake_cuda::calls() == std::vector<std::string>{"cuCtxGetCurrent", "cuLaunchKernel"});
    fake_cuda::set_current(nullptr);
  }

  TEST_CASE("cuda device: whichever driver call fails, the thread is as it was") {
    const std::shared_ptr<DeviceBackend> device = cuda_backend(0);
    const auto kernel = load("faults");
    void* const memory = device->allocate(64);
    char bytes[64] = {};
    int loads = 0;
    const struct {
      const char* what;
      std::function<void()> call;
    } rows[] = {
        {"load", [&] { load("faults " + std::to_string(loads++), 64 * 1024); }},
        {"launch", [&] { launch(*kernel, nullptr); }},
        {"allocate", [&] { device->release(device->allocate(8)); }},
        {"copy to", [&] { device->copy_to_device(memory, bytes, sizeof bytes, nullptr); }},
        {"copy from", [&] { device->copy_to_host(bytes, memory, sizeof bytes, nullptr); }},
        {"fill", [&] { device->fill(memory, 1, sizeof bytes, nullptr); }},
        {"synchronize", [&] { device->synchronize(nullptr); }},
        {"trim", [&] { device->trim(); }},
    };
    const CUcontext elsewhere = fake_cuda::primary(1);
    for (const auto& row : rows) {
      for (const CUcontext current : {CUcontext{}, fake_cuda::primary(0), elsewhere}) {
        CAPTURE(row.what);
        fake_cuda::set_current(current);
        const ThreadState before;
        load("for trim " + std::to_string(loads++));
        fake_cuda::reset();
        row.call();
        CHECK(ThreadState() == before);
        const std::vector<std::string> calls = fake_cuda::calls();
        std::map<std::string, int> seen;
        for (const std::string& call : calls) {
          const int after = seen[call]++;
          // Putting things back can't be undone; the second exchange is that too.
          if (call == "cuCtxPopCurrent" || call == "cuThreadExchangeStreamCaptureMode") continue;
          if (std::string(row.what) == "allocate" && after > 0) continue;  // release is silent
          if (call == "cuMemFree") continue;
          if (call == "cuLibraryUnload" && after > 0) continue;  // there was more to unload before
          CAPTURE(call);
          load("for trim " + std::to_string(loads++));
          fake_cuda::reset();
          fake_cuda::fail(call, CUDA_ERROR_ILLEGAL_ADDRESS, 1, after);
          const Error error = error_of(row.call);
          CHECK(error.kind() == ErrorKind::driver);
          CHECK(contains(error.what(), call + " failed: CUDA_ERROR_ILLEGAL_ADDRESS"));
          CHECK(ThreadState() == before);
        }
      }
    }
    fake_cuda::reset();
    fake_cuda::set_current(nullptr);
    device->release(memory);
  }

  TEST_CASE("cuda device: freeing never throws") {
    const std::shared_ptr<DeviceBackend> device = cuda_backend(0);
    for (const char* call : {"cuMemFree", "cuCtxGetCurrent", "cuCtxPushCurrent",
                             "cuThreadExchangeStreamCaptureMode"}) {
      void* const memory = device->allocate(8);
      const ThreadState before;
      fake_cuda::fail(call, CUDA_ERROR_INVALID_VALUE);
      device->release(memory);
      CHECK(ThreadState() == before);
      fake_cuda::reset();
    }
    device->release(nullptr);
    CHECK(fake_cuda::calls().empty());
  }

  TEST_CASE("cuda device: inside a stream capture") {
    const std::shared_ptr<DeviceBackend> device = cuda_backend(0);
    const Stream stream = fake_cuda::create_stream(fake_cuda::primary(0));
    for (const CUstreamCaptureMode mode :
         {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
          CU_STREAM_CAPTURE_MODE_RELAXED}) {
      fake_cuda::set_capture_mode(mode);
      fake_cuda::begin_capture();
      const auto kernel = load("capture " + std::to_string(mode), 100 * 1024);
      CHECK(fake_cuda::capture_mode() == mode);
      launch(*kernel, stream, {.shared_bytes = 100 * 1024});
      device->release(device->allocate(1 << 20));
      CHECK(fake_cuda::capture_mode() == mode);
      CHECK(fake_cuda::end_capture());
    }
    fake_cuda::set_capture_mode(CU_STREAM_CAPTURE_MODE_GLOBAL);
    fake_cuda::begin_capture();
    Device::cuda(1);
    CHECK(fake_cuda::end_capture());
  }

  TEST_CASE("cuda device: launched in the capture of a context that it was not loaded in") {
    const auto kernel = load("elsewhere");
    for (const bool brought : {true, false}) {
      CAPTURE(brought);
      const CUcontext second = fake_cuda::create_context(0);
      const Stream stream = brought ? stream_of(fake_cuda::create_stream(second)) : special(2);
      fake_cuda::set_current(brought ? nullptr : second);
      // Asked for what launching does: this made-up driver breaks captures of default streams.
      fake_cuda::reset();
      if (brought) fake_cuda::begin_capture();
      launch(*kernel, stream);
      if (brought) CHECK(fake_cuda::end_capture());
      CHECK(fake_cuda::launches().at(0).context == second);
      CHECK(fake_cuda::count("cuKernelGetFunction") == 1);
      launch(*kernel, stream);
      CHECK(fake_cuda::count("cuKernelGetFunction") == 1);
    }
    // Planned where it was loaded for another context: loaded there too, at once.
    const CUcontext third = fake_cuda::create_context(0);
    fake_cuda::set_current(third);
    fake_cuda::reset();
    CHECK(load("elsewhere") == kernel);
    CHECK(fake_cuda::count("cuKernelGetFunction") == 1);
    fake_cuda::set_current(nullptr);
  }

  TEST_CASE("cuda device: a kernel that can't be loaded in a stream's context is not launched") {
    const auto kernel = load("refused elsewhere");
    const Stream stream = fake_cuda::create_stream(fake_cuda::create_context(0));
    fake_cuda::reset();
    fake_cuda::fail("cuKernelGetFunction", CUDA_ERROR_OUT_OF_MEMORY);
    const ThreadState before;
    const Error error = error_of([&] { launch(*kernel, stream); });
    CHECK(contains(error.what(), "cuKernelGetFunction failed: CUDA_ERROR_OUT_OF_MEMORY"));
    CHECK(fake_cuda::launches().empty());
    CHECK(ThreadState() == before);
    launch(*kernel, stream);
    CHECK(fake_cuda::launches().size() == 1);
    fake_cuda::reset();
  }

  TEST_CASE("cuda device: different images load side by side") {
    load("not alone");  // the context is there
    fake_cuda::let_loads_meet(3);
    std::vector<std::thread> threads;
    for (const char* id : {"meeting 1", "meeting 2", "meeting 3"}) {
      threads.emplace_back([id] { CHECK_NOTHROW(load(id)); });
    }
    for (std::thread& thread : threads) thread.join();
    fake_cuda::let_loads_meet(0);
  }

  TEST_CASE("cuda device: images that the driver rejects, and other failures to load") {
    for (const CUresult result : {CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_INVALID_IMAGE,
                                  CUDA_ERROR_UNSUPPORTED_PTX_VERSION, CUDA_ERROR_INVALID_PTX}) {
      fake_cuda::reject("rejected", result);
      try {
        load("rejected");
        FAIL("it was loaded");
      } catch (const ImageRejected& error) {
        CHECK(error.kind() == ErrorKind::driver);
        CHECK(contains(error.what(), "the CUDA driver (13.0) does not take kernel of rejected"));
        CHECK(contains(error.what(), "cuda:0 (Fake GPU)"));
      }
    }
    fake_cuda::reset();
    const int loaded = fake_cuda::loaded_libraries();
    for (const char* call : {"cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction"}) {
      CAPTURE(call);
      fake_cuda::fail(call, CUDA_ERROR_NOT_FOUND);
      try {
        load("fails to load");
        FAIL("it was loaded");
      } catch (const ImageRejected&) {
        FAIL("another image would not help");
      } catch (const Error& error) {
        CHECK(contains(error.what(), std::string(call) + " failed: CUDA_ERROR_NOT_FOUND"));
      }
      CHECK(fake_cuda::loaded_libraries() == loaded);
    }
    fake_cuda::reset();
    CHECK(load("fails to load") != nullptr);  // and is tried again
  }

  TEST_CASE("cuda device: one kernel stays loaded per id and entry") {
    const auto kernel = load("once");
    const int loaded = fake_cuda::loaded_libraries();
    CHECK(load("once") == kernel);
    CHECK(fake_cuda::loaded_libraries() == loaded);
    CHECK(load("once", 0, 0, "other_entry") != kernel);
    CHECK(load("once", 0, 1) != kernel);
    std::vector<std::thread> threads;
    std::vector<std::shared_ptr<const LoadedKernel>> kernels(16);
    const int before = fake_cuda::loaded_libraries();
    for (auto& slot : kernels) threads.emplace_back([&slot] { slot = load("by many threads"); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& one : kernels) CHECK(one == kernels.front());
    CHECK(fake_cuda::loaded_libraries() == before + 1);
  }

  TEST_CASE("cuda device: dynamic shared memory is asked for, and never lowered") {
    const auto most = [](int device = 0) {
      return fake_cuda::max_dynamic_shared_bytes("shared", device);
    };
    const auto kernel = load("shared", 0, 0, "shared");
    CHECK(most() == 0);
    load("shared", 48 * 1024 + 1, 0, "shared");
    CHECK(most() == 48 * 1024 + 1);
    load("shared", 200 * 1024, 0, "shared");
    CHECK(most() == 200 * 1024);
    load("shared", 100 * 1024, 0, "shared");
    CHECK(most() == 200 * 1024);
    CHECK(most(1) == 0);
    launch(*kernel, nullptr, {.shared_bytes = 200 * 1024});
    // What it has statically counts, and no 32 bits are too few.
    for (const std::int64_t bytes : {std::int64_t{227 * 1024}, (std::int64_t{1} << 32) + 64}) {
      const Error error = error_of([&] { load("shared", bytes, 0, "shared"); });
      CHECK(error.kind() == ErrorKind::unsupported);
      CHECK_MESSAGE(contains(error.what(), std::to_string(bytes) +
                                               " bytes of dynamic and 1024 of static shared "
                                               "memory a block; cuda:0 (Fake GPU) has 232448"),
                    error.what());
    }
    load("shared", 226 * 1024, 0, "shared");
    launch(*kernel, nullptr, {.shared_bytes = 200 * 1024});
  }

  TEST_CASE("cuda device: only trim unloads, and only what nothing holds") {
    const std::shared_ptr<DeviceBackend> device = cuda_backend(0);
    device->trim();
    const int loaded = fake_cuda::loaded_libraries();
    {
      auto dropped = load("dropped");
      CHECK(fake_cuda::loaded_libraries() == loaded + 1);
    }
    CHECK(fake_cuda::loaded_libraries() == loaded + 1);
    const auto held = load("held");
    CHECK(fake_cuda::loaded_libraries() == loaded + 2);
    device->trim();
    CHECK(fake_cuda::loaded_libraries() == loaded + 1);
    launch(*held, nullptr);
    CHECK(load("held") == held);
    load("dropped");
    CHECK(fake_cuda::loaded_libraries() == loaded + 2);
  }

  TEST_CASE("cuda device: memory") {
    const Device device = Device::cuda(0);
    const std::size_t before = fake_cuda::allocated_bytes();
    {
      const std::vector<float> values{1, 2, 3};
      DeviceBuffer<float> buffer(device, values);
      CHECK(buffer.to_host() == values);
      device.fill(buffer.data(), 0, sizeof(float) * 2);
      CHECK(buffer.to_host() == std::vector<float>{0, 0, 3});
      DeviceBuffer<float> moved(std::move(buffer));
      CHECK(moved.size() == 3);
      buffer = DeviceBuffer<float>(device, std::size_t{1});
      buffer = std::move(moved);
      CHECK(buffer.to_host()[2] == 3);
      const DeviceBuffer<double> empty(device, std::size_t{0});
      CHECK(empty.to_host().empty());
    }
    CHECK(fake_cuda::allocated_bytes() == before);

    const std::size_t much = std::size_t{1} << 41;
    const Error error = error_of([&] { device.allocate(much); });
    CHECK(error.kind() == ErrorKind::driver);
    CHECK(contains(error.what(), "2199023255552 bytes"));
    CHECK(contains(error.what(), "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"));
    CHECK(fake_cuda::stack_depth() == 0);
  }

  TEST_CASE("cuda device: what a failed launch says") {
    const auto kernel = load("launch errors");
    const auto message = [&](CUresult result) {
      fake_cuda::fail("cuLaunchKernel", result);
      const Error error = error_of([&] { launch(*kernel, nullptr); });
      CHECK(error.kind() == ErrorKind::driver);
      return std::string(error.what());
    };
    const std::string resources = message(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    CHECK(contains(resources,
                   "cuLaunchKernel failed: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (too many resources "
                   "requested for launch)"));
    CHECK_FALSE(contains(resources, "asynchronous"));
    CHECK(contains(message(CUDA_ERROR_ILLEGAL_ADDRESS),
                   "an earlier asynchronous fault of this program may be the cause"));
    CHECK(contains(message(static_cast<CUresult>(998)), "cuLaunchKernel failed: 998"));
    fake_cuda::reset();
  }

  TEST_CASE("cuda device: a child after fork gets a clear error, the parent goes on") {
    const Device device = Device::cuda(0);
    const auto kernel = load("fork");
    void* const memory = device.allocate(8);
    fake_cuda::reset();
    const int failures = in_child([&] {
      const std::function<void()> calls[] = {
          [] { Device::cuda(0); },
          [] { Device::cuda(1); },
          [&] { launch(*kernel, nullptr); },
          [] { load("in the child"); },
          [&] { device.allocate(8); },
          [&] { device.synchronize(); },
          [&] { device.fill(memory, 0, 8); },
          [&] { device.backend()->trim(); },
      };
      int wrong = 0;
      for (const auto& call : calls) {
        try {
          call();
          ++wrong;
        } catch (const Error& error) {
          wrong += error.kind() != ErrorKind::driver || !contains(error.what(), "forked");
        }
      }
      device.release(memory);
      return wrong + static_cast<int>(fake_cuda::calls().size());
    });
    CHECK(failures == 0);
    launch(*kernel, nullptr);
    device.release(memory);
    CHECK(fake_cuda::launches().size() == 1);
  }
}

}  // namespace
}  // namespace tilec::test
