// A driver that isn't there, isn't one, is too old, or finds no GPU: what each way to a GPU says.
#include "device/driver.h"
#include "support.h"

namespace tilec::test {
namespace {

// `folder` is where libcuda.so.1 is looked for first.
std::vector<std::string> errors(const fs::path& folder, const std::string& fake = {}) {
  Environment environment{{"LD_LIBRARY_PATH", folder.string()},
                          {"FAKE_CUDA", fake},
                          {"TILEC_CACHE_POLICY", "off"},
                          {"CUDA_VISIBLE_DEVICES", std::nullopt}};
  const Ended ended = run({.arguments = {"cuda"}, .environment = environment});
  CHECK(ended.status == 0);
  std::vector<std::string> lines;
  for (std::size_t start = 0; start < ended.output.size();) {
    const std::size_t end = ended.output.find('\n', start);
    lines.push_back(ended.output.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

TEST_SUITE("cpu") {
  TEST_CASE("driver: what each kind of absence says") {
    const TemporaryFolder folder;
    write_text(folder / "garbage" / "libcuda.so.1", "not a library");
    fs::create_directories(folder / "empty");
    const fs::path fake = TILEC_FAKE_CUDA_DIR, old = TILEC_OLD_CUDA_DIR;
    const std::string host_device = "Device::host(), or --device host";
    struct Row {
      const char* what;
      fs::path folder;
      std::string fake;
      std::vector<std::string> parts;
    };
    std::vector<Row> rows = {
        {"a stub", fake, "init=34", {"the toolkit's stub, not a driver", host_device}},
        {"no GPU", fake, "init=100", {"sees no GPU", "CUDA_VISIBLE_DEVICES", host_device}},
        {"no device", fake, "devices=0", {"sees no GPU", host_device}},
        {"CUDA 11", old, "", {"older than 12.0", "old_cuda/libcuda.so.1"}},
        {"no cuLibraryLoadData",
         fake,
         "missing=cuLibraryLoadData",
         {"has no cuLibraryLoadData", "CUDA 12.0 or later"}},
    };
    const struct {
      int result;
      const char *name, *remedy;
    } failures[] = {
        {3, "CUDA_ERROR_NOT_INITIALIZED", "forked"},
        {4, "CUDA_ERROR_DEINITIALIZED", "shut down"},
        {34, "CUDA_ERROR_STUB_LIBRARY", "LD_LIBRARY_PATH"},
        {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "compute mode"},
        {100, "CUDA_ERROR_NO_DEVICE", "--gpus all"},
        {101, "CUDA_ERROR_INVALID_DEVICE", "nvidia-smi -L"},
        {102, "CUDA_ERROR_DEVICE_NOT_LICENSED", "licence"},
        {304, "CUDA_ERROR_OPERATING_SYSTEM", "/dev/nvidia*"},
        {802, "CUDA_ERROR_SYSTEM_NOT_READY", "fabric manager"},
        {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "reboot"},
        {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "cuda-compat"},
        {805, "CUDA_ERROR_MPS_CONNECTION_FAILED", "nvidia-cuda-mps-control"},
        {806, "CUDA_ERROR_MPS_RPC_FAILURE", "MPS server"},
        {807, "CUDA_ERROR_MPS_SERVER_NOT_READY", "try again"},
        {808, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", "MPS server"},
        {809, "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED", "MPS clients"},
        {999, "CUDA_ERROR_UNKNOWN", "nvidia_uvm"},
        {998, "CUresult 998", "cuInit"},  // that no driver has
    };
    for (const auto& failure : failures) {
      rows.push_back({failure.name,
                      fake,
                      "init=" + std::to_string(failure.result),
                      {"cuInit of ", "fake_cuda/libcuda.so.1", std::to_string(failure.result),
                       failure.name, failure.remedy, host_device}});
    }
    if (!fs::exists("/dev/nvidiactl")) {
      const std::vector<std::string> parts{"there is no CUDA driver",
                                           "libcuda.so.1",
                                           "/usr/lib/wsl/lib/libcuda.so.1",
                                           "/run/opengl-driver/lib/libcuda.so.1",
                                           "/usr/local/nvidia/lib64/libcuda.so.1",
                                           host_device};
      rows.push_back({"none at all", folder / "empty", "", parts});
      rows.push_back({"not a library", folder / "garbage", "", parts});
    }
    for (const Row& row : rows) {
      CAPTURE(std::string(row.what));
      const std::vector<std::string> lines = errors(row.folder, row.fake);
      CHECK(lines.size() == 5);
      for (const std::string& line : lines) {
        CHECK_MESSAGE(line.starts_with("error=driver: "), line);
        for (const std::string& part : row.parts) CHECK_MESSAGE(contains(line, part), line);
      }
    }
  }

  TEST_CASE("driver: a good one is found in libcuda.so.1's place") {
    for (const std::string& line : errors(TILEC_FAKE_CUDA_DIR)) CHECK(line == "no error");
  }

  TEST_CASE("driver: where the loader finds none, the other usual places are looked at") {
    const TemporaryFolder folder;
    write_text(folder / "garbage.so", "not a library");
    const std::string garbage = (folder / "garbage.so").string();
    const std::string fake = std::string(TILEC_FAKE_CUDA_DIR) + "/libcuda.so.1";
    CHECK(in_child([&] {
            const char* const places[] = {"libcuda-nowhere.so.1", garbage.c_str(), "libm.so.6",
                                          "/no/such/libcuda.so.1", fake.c_str()};
            return open_driver_library(places) != nullptr ? 0 : 1;
          }) == 0);
    const char* const none[] = {"libcuda-nowhere.so.1", garbage.c_str(), "libm.so.6",
                                "/no/such/libcuda.so.1"};
    const Error error = error_of([&] { open_driver_library(none); });
    CHECK(error.kind() == ErrorKind::driver);
    for (const std::string& part :
         {std::string("libcuda-nowhere.so.1"), garbage + ": ", std::string("has no cuInit"),
          std::string("/no/such/libcuda.so.1. Install")}) {
      CHECK_MESSAGE(contains(error.what(), part), error.what());
    }
  }

  TEST_CASE("driver: a GPU that gives no context can be described, and says why") {
    const Ended ended = run({.arguments = {"busy"},
                             .environment = {{"LD_LIBRARY_PATH", TILEC_FAKE_CUDA_DIR},
                                             {"FAKE_CUDA", "fail=cuDevicePrimaryCtxRetain:46"}}});
    for (const char* part :
         {"cuda:0 (Fake GPU)\n", "error=driver: cuda:0 (Fake GPU) gives this",
          "cuDevicePrimaryCtxRetain failed: CUDA_ERROR_DEVICE_UNAVAILABLE", "compute mode"}) {
      CHECK_MESSAGE(contains(ended.output, part), ended.output);
    }
  }

  TEST_CASE("driver: a child forked while a thread opens the driver is told so") {
    const TemporaryFolder folder;
    const std::string hold = (folder / "hold").string();
    const Ended ended = run({.arguments = {"fork", "hold=" + hold},
                             .environment = {{"LD_LIBRARY_PATH", TILEC_FAKE_CUDA_DIR},
                                             {"FAKE_CUDA", "hold_init=" + hold}}});
    CHECK_MESSAGE(contains(ended.output, "in the child: this process was forked"), ended.output);
    CHECK(contains(ended.output, "status 0, the parent has cuda:0 (Fake GPU)"));
  }

  TEST_CASE("driver: a program that needs none starts, plans and ends without") {
    const TemporaryFolder folder;
    write_text(folder / "libcuda.so.1", "not a library");
    const Ended ended = run({.arguments = {"plan"},
                             .environment = {{"LD_LIBRARY_PATH", folder.path().string()},
                                             {"TILEC_CACHE_DIR", (folder / "cache").string()},
                                             {"TILEC_CACHE_POLICY", "must_hit"}}});
    CHECK(ended.status == 0);
    CHECK(contains(ended.output, "error=cache_miss"));
    CHECK(contains(ended.output, "driver=0"));
  }
}

}  // namespace
}  // namespace tilec::test
