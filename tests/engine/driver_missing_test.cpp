// A driver that isn't there, isn't one, is too old, or finds no GPU: what each way to a GPU says.
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
        {"not a library", folder / "garbage", "", {"there is no CUDA driver", host_device}},
        {"a stub", fake, "init=34", {"the toolkit's stub, not a driver", host_device}},
        {"no GPU", fake, "init=100", {"sees no GPU", "CUDA_VISIBLE_DEVICES", host_device}},
        {"no device", fake, "devices=0", {"sees no GPU", host_device}},
        {"another fault", fake, "init=999", {"cuInit failed with CUresult 999", host_device}},
        {"CUDA 11", old, "", {"older than 12.0"}},
        {"no cuLibraryLoadData",
         fake,
         "missing=cuLibraryLoadData",
         {"has no cuLibraryLoadData", "CUDA 12.0 or later"}},
        {"no context",
         fake,
         "fail=cuDevicePrimaryCtxRetain:2",
         {"cuDevicePrimaryCtxRetain failed: CUDA_ERROR_OUT_OF_MEMORY (out of memory)"}},
    };
    if (!fs::exists("/dev/nvidiactl")) {
      rows.push_back({"none at all",
                      folder / "empty",
                      "",
                      {"there is no CUDA driver", "libcuda.so.1", host_device}});
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
