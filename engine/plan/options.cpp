// Options from the environment, and the paths that people write. (Beside these the host compiler is
// handed the environment as it is, and works in TMPDIR.)
#include "tilec/options.h"

#include <pwd.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

namespace tilec {
namespace {

namespace fs = std::filesystem;

// Reads variables for this program, or notes that it must not.
class Variables {
 public:
  std::string text(const char* name) {
    const char* const value = secure_getenv(name);
    if (value != nullptr) return value;
    if (const char* unsafe = std::getenv(name); unsafe != nullptr && *unsafe != '\0') {
      ignored_.emplace_back(name);
    }
    return {};
  }

  fs::path path(const char* name) { return resolved_path(text(name), name); }
  fs::path program(const char* name) { return resolved_program(text(name), name); }

  std::vector<fs::path> paths(const char* name) {
    std::vector<fs::path> paths;
    const std::string all = text(name);
    std::string_view rest = all;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(':'), rest.size());
      if (end > 0) paths.push_back(resolved_path(rest.substr(0, end), name));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return paths;
  }

  std::vector<std::string> ignored() && { return std::move(ignored_); }

 private:
  std::vector<std::string> ignored_;
};

std::string safe_text(const char* name) {
  const char* const value = secure_getenv(name);
  return value == nullptr ? "" : value;
}

// Of the account, where HOME is not to be had. Accounts may be missing altogether, in containers.
std::string home() {
  if (std::string home = safe_text("HOME"); !home.empty()) return home;
  std::vector<char> buffer(16384);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 &&
      found != nullptr && found->pw_dir != nullptr) {
    return found->pw_dir;
  }
  return {};
}

fs::path default_cache_dir(Variables& variables) {
  if (fs::path path = variables.path("TILEC_CACHE_DIR"); !path.empty()) return path;
  // By the XDG specification a relative path there is to be ignored.
  if (const fs::path path = variables.text("XDG_CACHE_HOME"); path.is_absolute())
    return path / "tilec";
  if (const fs::path path = home(); path.is_absolute() && path != "/") {
    return path / ".cache" / "tilec";
  }
  // No home at all: a folder of this user's own. The cache checks that nobody else owns it.
  const fs::path temporary = safe_text("TMPDIR");
  return (temporary.is_absolute() ? temporary : fs::path("/tmp")) /
         fmt::format("tilec-cache-{}", geteuid());
}

CachePolicy policy(const std::string& name) {
  if (name.empty() || name == "normal") return CachePolicy::normal;
  if (name == "must_hit") return CachePolicy::must_hit;
  if (name == "refresh") return CachePolicy::refresh;
  if (name == "off") return CachePolicy::off;
  throw Error(
      ErrorKind::invalid_argument,
      fmt::format("TILEC_CACHE_POLICY = '{}'; it may be normal, must_hit, refresh or off", name));
}

// `path`, which begins with a tilde, beneath the home folder.
fs::path beneath_home(const std::string& path, std::string_view what) {
  const fs::path folder = home();
  if (path.size() > 1 && path[1] != '/') {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} = '{}'; only ~ and ~/… are taken, for the home folder. Write out "
                            "another user's, or begin with ./ for a name that has a tilde",
                            what, path));
  }
  if (!folder.is_absolute()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} = '{}', and there is no home folder: HOME is unset, and user {} "
                            "has no account. Write the path out",
                            what, path, geteuid()));
  }
  const fs::path rest = fs::path(path.substr(1)).relative_path();
  return rest.empty() ? folder : folder / rest;
}

}  // namespace

fs::path resolved_path(const fs::path& path, std::string_view what) {
  if (path.empty() || path.is_absolute()) return path;
  if (path.native().front() == '~') return beneath_home(path.native(), what);
  std::error_code error;
  const fs::path here = fs::current_path(error);
  if (!error) return here / path;
  throw Error(ErrorKind::invalid_argument,
              fmt::format("{} = '{}' is relative, and the working directory can't be told: {}. "
                          "Write the path out",
                          what, path.string(), error.message()));
}

fs::path resolved_program(const fs::path& path, std::string_view what) {
  const std::string& text = path.native();
  const bool is_name = text.find('/') == std::string::npos && !text.starts_with('~');
  return is_name ? path : resolved_path(path, what);
}

Options Options::from_env() {
  Variables variables;
  Options options;
  options.cache_dir = default_cache_dir(variables);
  options.cache_policy = policy(variables.text("TILEC_CACHE_POLICY"));
  if (const std::string size = variables.text("TILEC_CACHE_MAX_BYTES"); !size.empty()) {
    options.cache_max_bytes = parse_bytes(size, "TILEC_CACHE_MAX_BYTES");
  }
  options.read_only_roots = variables.paths("TILEC_CACHE_ROOTS");
  options.bundle_files = variables.paths("TILEC_CACHE_BUNDLES");
  options.trust_shared = variables.paths("TILEC_CACHE_TRUST_SHARED");
  options.require_builder = variables.text("TILEC_REQUIRE_BUILDER");
  options.nvrtc.library = variables.program("TILEC_NVRTC");
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (fs::path path = variables.path(name); !path.empty()) {
      options.nvrtc.toolkits.push_back(std::move(path));
    }
  }
  options.host_compiler = variables.program("TILEC_HOST_COMPILER");
  options.dump_dir = variables.path("TILEC_DUMP_DIR");
  options.record = variables.path("TILEC_RECORD");
  options.ignored_variables = std::move(variables).ignored();
  return options;
}

}  // namespace tilec
