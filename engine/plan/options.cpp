// Options from the environment: the only place where tilec reads it.
#include "tilec/options.h"

#include <pwd.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace tilec {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Of the account, where HOME is not set. Accounts may be missing altogether, in containers.
std::string home() {
  if (std::string home = environment("HOME"); !home.empty()) return home;
  std::vector<char> buffer(16384);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 &&
      found != nullptr && found->pw_dir != nullptr) {
    return found->pw_dir;
  }
  return {};
}

fs::path default_cache_dir() {
  if (const std::string path = environment("TILEC_CACHE_DIR"); !path.empty()) return path;
  // By the XDG specification a relative path there is to be ignored.
  if (const fs::path path = environment("XDG_CACHE_HOME"); path.is_absolute())
    return path / "tilec";
  if (const fs::path path = home(); path.is_absolute() && path != "/") {
    return path / ".cache" / "tilec";
  }
  // No home at all: a folder of this user's own. The cache checks that nobody else owns it.
  std::error_code error;
  const fs::path temporary = fs::temp_directory_path(error);
  return error ? fs::path() : temporary / fmt::format("tilec-cache-{}", geteuid());
}

std::vector<fs::path> list(const char* name) {
  std::vector<fs::path> paths;
  const std::string all = environment(name);
  std::string_view rest = all;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) paths.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return paths;
}

CachePolicy policy() {
  const std::string name = environment("TILEC_CACHE_POLICY");
  if (name.empty() || name == "normal") return CachePolicy::normal;
  if (name == "must_hit") return CachePolicy::must_hit;
  if (name == "refresh") return CachePolicy::refresh;
  if (name == "off") return CachePolicy::off;
  throw Error(
      ErrorKind::invalid_argument,
      fmt::format("TILEC_CACHE_POLICY = '{}'; it may be normal, must_hit, refresh or off", name));
}

// "1073741824", "512M", "2G".
std::uint64_t bytes(const char* name, std::uint64_t otherwise) {
  const std::string text = environment(name);
  if (text.empty()) return otherwise;
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  int shift = -1;
  if (unit.empty()) shift = 0;
  if (unit == "K") shift = 10;
  if (unit == "M") shift = 20;
  if (unit == "G") shift = 30;
  if (error != std::errc() || shift < 0 || value > (~std::uint64_t{0} >> shift)) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} = '{}'; it is a number of bytes, or one followed by K, M or G",
                            name, text));
  }
  return value << shift;
}

}  // namespace

Options Options::from_env() {
  Options options;
  options.cache_dir = default_cache_dir();
  options.cache_policy = policy();
  options.cache_max_bytes = bytes("TILEC_CACHE_MAX_BYTES", options.cache_max_bytes);
  options.read_only_roots = list("TILEC_CACHE_ROOTS");
  options.bundle_files = list("TILEC_CACHE_BUNDLES");
  options.trust_shared = list("TILEC_CACHE_TRUST_SHARED");
  options.require_builder = environment("TILEC_REQUIRE_BUILDER");
  options.nvrtc.library = environment("TILEC_NVRTC");
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const std::string path = environment(name); !path.empty()) {
      options.nvrtc.toolkits.emplace_back(path);
    }
  }
  options.host_compiler = environment("TILEC_HOST_COMPILER");
  options.dump_dir = environment("TILEC_DUMP_DIR");
  options.record = environment("TILEC_RECORD");
  return options;
}

}  // namespace tilec
