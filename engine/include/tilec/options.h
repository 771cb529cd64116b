// How an engine behaves. Everything has a default that is right for most programs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilec/error.h"
#include "tilec/kernel_template.h"

namespace spdlog {
class logger;
}

namespace tilec {

enum class CachePolicy : std::uint8_t {
  normal,    // look up, else compile and keep
  must_hit,  // never compile: a miss is Error{cache_miss}
  refresh,   // compile, and replace what the cache holds
  off,       // neither read nor write the disk
};

// Where NVRTC is looked for when a kernel has to be compiled.
struct NvrtcLocation {
  std::filesystem::path library;  // the shared library itself; nothing else is tried then
  // Else by its usual names, then in these toolkits' folders, then in /usr/local/cuda and /opt/cuda:
  // the first of CUDA 12.0 or later. Their include folders serve templates that use CUDA's own
  // headers.
  std::vector<std::filesystem::path> toolkits;
};

// Relative paths and `~` are resolved when an Engine is made, as resolved_path does.
struct TILEC_EXPORT Options {
  // The cache's own root. Empty: no disk cache beyond the read-only roots and bundles.
  std::filesystem::path cache_dir;
  CachePolicy cache_policy = CachePolicy::normal;
  std::uint64_t cache_max_bytes = std::uint64_t{1} << 30;  // 0: no bound
  bool cache_sync = true;                                  // fsync what is published
  // How long to wait for another process that builds the same kernel, before building it too.
  std::chrono::milliseconds build_wait{60000};
  // Searched after the own root, in this order, never written: folders, then bundle files, then
  // bundles in memory (which must outlive every engine that uses them).
  std::vector<std::filesystem::path> read_only_roots;
  std::vector<std::filesystem::path> bundle_files;
  std::vector<std::span<const std::byte>> bundles;
  // Roots that are used although others than their owner could write there.
  std::vector<std::filesystem::path> trust_shared;
  // Serve only what this builder made ("nvrtc-13.0.88"). Empty: any that the driver loads.
  std::string require_builder;

  NvrtcLocation nvrtc;
  // The C++ compiler of the host device; a name without a slash is looked for on PATH. Empty: c++,
  // g++ or clang++.
  std::filesystem::path host_compiler;
  // Where each plan's rendered source, PTX and cubin are written, hit or miss. Empty: nowhere.
  std::filesystem::path dump_dir;
  // Where the problems that were planned are recorded as a manifest for `tilec build`. Empty:
  // nowhere. Like a dump, never written through a stranger's symbolic link, one at its own name, or
  // into a stranger's folder.
  std::filesystem::path record;

  // Gets tilec's log messages. Null: a logger of tilec's own, on stderr from warnings up. spdlog's
  // default logger is never touched.
  std::shared_ptr<spdlog::logger> logger;
  // Variables that from_env did not look at, because this program is set-user-id (or privileged in
  // another way that AT_SECURE tells): whoever starts it must not steer what it loads. An engine
  // warns of them.
  std::vector<std::string> ignored_variables;

  // The defaults, with TILEC_CACHE_DIR (else XDG_CACHE_HOME/tilec, else HOME/.cache/tilec),
  // TILEC_CACHE_POLICY, TILEC_CACHE_MAX_BYTES, TILEC_CACHE_ROOTS, TILEC_CACHE_BUNDLES,
  // TILEC_CACHE_TRUST_SHARED (these three are lists separated by ':'), TILEC_REQUIRE_BUILDER,
  // TILEC_NVRTC, CUDA_HOME, CUDA_PATH, TILEC_HOST_COMPILER, TILEC_DUMP_DIR and TILEC_RECORD. Paths
  // are resolved now. Throws Error{invalid_argument}, naming the variable and what it takes, for a
  // value that can't be read. The only place where tilec reads the environment; a set-user-id
  // program gets the defaults, with the home folder of its effective user.
  static Options from_env();
};

// The path that a person wrote, made absolute: `~` and `~/…` begin at the home folder, and what is
// relative at the present working directory. Empty stays empty. Throws Error{invalid_argument},
// calling the path `what`, where there is no such folder, and for `~user`.
TILEC_EXPORT std::filesystem::path resolved_path(const std::filesystem::path& path,
                                                 std::string_view what);
// The same of a program or library, but a name without a slash stays as it is: it is looked for
// where the system keeps such files, never in the working directory.
TILEC_EXPORT std::filesystem::path resolved_program(const std::filesystem::path& path,
                                                    std::string_view what);

// A size: "1073741824", "512M", "1.5 GiB", "10 mb". K, M, G and T are powers of 1024, in either
// case, alone or with B or iB: MB and MiB are the same. For a bound 0 means that there is none.
// Throws Error{invalid_argument} that calls the value `what` and says what is taken.
TILEC_EXPORT std::uint64_t parse_bytes(std::string_view text, std::string_view what);

// What one plan is asked to be. Left out, the template and its parameters are chosen for the problem's
// shape and the device.
struct PlanOptions {
  std::string template_name = {};  // of the catalog, or registered
  Parameters parameters = {};      // where some are given, the rest take the template's defaults
  // Bytes of scratch memory a run may need. 0 always finds a plan.
  std::size_t max_workspace = ~std::size_t{0};

  bool operator==(const PlanOptions&) const = default;
};

}  // namespace tilec
