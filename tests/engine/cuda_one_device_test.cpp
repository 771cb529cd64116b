// The CUDA device on a machine that has only one: a launch into a stream that it launched
// into before asks for no context.
#include "device/backend.h"
#include "support.h"
#include "tests/support/fake_cuda.h"

namespace tilec::test {
namespace {

TEST_SUITE("cpu tsan") {
  TEST_CASE("cuda device: the only one there is") {
    fake_cuda::set_devices(1);
    const std::shared_ptr<DeviceBackend> device = cuda_backend(0);
    device->trim();
    CHECK(cuda_device_count() == 1);
    CHECK(fake_cuda::count("cuDevicePrimaryCtxRetain") == 0);
    CHECK(contains(error_of([] { cuda_backend(1); }).what(), "1 CUDA device (cuda:0)"));
    const std::vector<std::byte> image = made_up_cubin(90, "one");
    const auto kernel =
        device->load({.id = "one", .entry = "kernel", .message = "one", .bytes = image}, 0);
    CHECK(fake_cuda::count("cuDevicePrimaryCtxRetain") == 1);
    const CUcontext primary = fake_cuda::primary(0), second = fake_cuda::create_context(0);
    const int argument = 0;
    for (const CUcontext current : {CUcontext{}, primary, second}) {
      for (const CUcontext brought : {primary, second}) {
        const CUstream stream = fake_cuda::create_stream(brought);
        fake_cuda::set_current(current);
        // The first launch into a stream sees to it that the kernel is loaded there.
        fake_cuda::begin_capture();
        device->launch(*kernel, {}, &argument, stream);
        CHECK(fake_cuda::end_capture());
        CHECK(fake_cuda::current() == current);
        fake_cuda::reset();
        device->launch(*kernel, {}, &argument, stream);
        CHECK(fake_cuda::calls() == std::vector<std::string>{"cuLaunchKernel"});
        CHECK(fake_cuda::launches().at(0).context == brought);
        device->launch(*kernel, {}, &argument, nullptr);
        CHECK(fake_cuda::launches().at(1).context == (current == second ? second : primary));
        CHECK(fake_cuda::current() == current);
        CHECK(fake_cuda::stack_depth() == (current == nullptr ? 0 : 1));
      }
    }
    // Several in turn, as programs use them.
    std::vector<CUstream> streams;
    for (int i = 0; i < 4; ++i) streams.push_back(fake_cuda::create_stream(primary));
    for (const CUstream stream : streams) device->launch(*kernel, {}, &argument, stream);
    fake_cuda::reset();
    for (int turn = 0; turn < 3; ++turn) {
      for (const CUstream stream : streams) device->launch(*kernel, {}, &argument, stream);
    }
    CHECK(fake_cuda::calls() == std::vector<std::string>(12, "cuLaunchKernel"));
    fake_cuda::set_current(nullptr);
  }
}

}  // namespace
}  // namespace tilec::test
