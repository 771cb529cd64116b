// tilec build: fills the cache ahead of time, in worker processes.
#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <memory>

#include "build_targets.h"
#include "build_work.h"
#include "command.h"
#include "machine_limits.h"

namespace tilec::command {
namespace {

struct BuildFlags {
  std::vector<std::string> manifests, gemms, adds;
  std::string template_name;
  std::vector<std::string> settings;
  PlaceFlags places;
  std::string jobs, time_limit = "300", shard = "1/1";
  bool dry_run = false, quiet = false;
};

struct Wanted {
  std::vector<ManifestRequest> requests;
  std::vector<Place> places;
};

Wanted wanted(const BuildFlags& flags) {
  Wanted all;
  PlaceFlags from_manifests;
  for (const std::string& path : flags.manifests) {
    Manifest manifest = read_manifest(path);
    if (manifest.requests.empty() && manifest.archs.empty() && manifest.devices.empty()) {
      throw UsageError(path + ": the manifest is empty");
    }
    all.requests.insert(all.requests.end(), manifest.requests.begin(), manifest.requests.end());
    const auto append = [](const std::vector<std::string>& from, std::vector<std::string>& to) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(manifest.archs, from_manifests.archs);
    append(manifest.devices, from_manifests.devices);
  }
  const PlanOptions options{.template_name = flags.template_name,
                            .parameters = parse_settings(flags.settings)};
  for (const std::string& gemm : flags.gemms) {
    all.requests.push_back({.request = {parse_gemm(gemm), options}});
  }
  for (const std::string& add : flags.adds) {
    all.requests.push_back({.request = {parse_add(add), options}});
  }
  const bool named = !flags.template_name.empty() || !flags.settings.empty();
  if (named && flags.gemms.empty() && flags.adds.empty()) {
    throw UsageError(
        "--template and --set say how --gemm and --add are to be built; name one of those");
  }
  all.places = flags.places.empty() ? from_manifests.places() : flags.places.places();
  if (all.places.empty()) {
    throw UsageError(
        "name what to build for: --arch sm_80,sm_90a and the like, or --device h200 (see `tilec "
        "info`)");
  }
  return all;
}

int jobs(const BuildFlags& flags) {
  if (flags.jobs.empty()) return default_jobs(machine_limits());
  return static_cast<int>(parse_integer(flags.jobs, "-j", 1, 1024));
}

std::chrono::milliseconds time_limit(const BuildFlags& flags) {
  const double seconds = parse_number(flags.time_limit, "--time-limit");
  if (seconds <= 0 || seconds > 1e6) {
    throw UsageError("--time-limit = '" + flags.time_limit +
                     "' is not a number of seconds above 0");
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1e3)));
}

std::vector<std::string> worker_command(const GlobalFlags& global) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    throw Failure("no worker process can be started: /proc/self/exe: " + error.message() +
                  "; tilec build needs /proc mounted");
  }
  std::vector<std::string> command{program.string()};
  for (const std::string& word : global.words()) command.push_back(word);
  command.emplace_back("worker");
  return command;
}

int build(const GlobalFlags& global, const BuildFlags& flags) {
  const Options options = global.options();
  if (options.cache_policy == CachePolicy::off || options.cache_policy == CachePolicy::must_hit) {
    throw UsageError(
        "tilec build fills the cache; with a cache policy of off or must_hit it can't");
  }
  const Shard shard = parse_shard(flags.shard);
  const PoolOptions pool{
      .command = worker_command(global), .processes = jobs(flags), .time_limit = time_limit(flags)};
  const Wanted all = wanted(flags);
  BuildList list = build_list(all.requests, all.places, options);
  BuildReport report{.results = {},
                     .notes = std::move(list.notes),
                     .cache_dir = options.cache_dir.string(),
                     .max_bytes = options.cache_max_bytes,
                     .shard = shard,
                     .dry_run = flags.dry_run};
  for (BuildItem& item : shard_of(std::move(list.items), shard)) {
    report.results.push_back({.item = std::move(item)});
  }
  const cache::Store store = flags.dry_run ? open_store(options) : open_store_to_fill(options);
  {
    BuildWork work(report, store, options, flags.quiet || flags.dry_run);
    work.note_present();
    const std::vector<const BuildItem*> missing = work.missing();
    if (!flags.dry_run && !missing.empty()) expect_writable(store);
    expect_compilable(missing, options, flags.dry_run);
    if (!flags.dry_run) {
      work.build_missing(pool);
      // Killed workers leave temporary files.
      store.sweep({.temporary_age = std::chrono::seconds(0)});
      work.note_evicted();
    }
  }
  if (global.json) {
    print_json(to_json(report));
  } else {
    print_text(text(report));
  }
  if (const std::string why = complaint(report); !why.empty()) print_warning(why);
  return exit_status(report);
}

}  // namespace

void register_build(CLI::App& root, Invocation& invocation) {
  auto* app = root.add_subcommand("build", "Compile kernels into the cache; needs no GPU");
  app->footer(
      "Without problems, everything that tilec can choose by itself for the targets is built.\n"
      "Kernels that are there already are skipped, so an interrupted build goes on where it "
      "was.\n\n"
      "  tilec build --arch sm_80,sm_90a\n"
      "  tilec build --gemm 4096,4096,4096,f16 --add 1000000 --device h200\n"
      "  tilec build fleet.json --shard 3/8 -j 16      one of eight jobs of an array\n");
  const auto flags = std::make_shared<BuildFlags>();
  const auto list = [&](const char* name, std::vector<std::string>& values, const char* meaning,
                        const char* type) {
    app->add_option(name, values, meaning)
        ->type_name(type)
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  app->add_option("manifest", flags->manifests, "JSON manifests of problems; - for standard input");
  list("--gemm", flags->gemms, "A GEMM; repeatable", "M,N,K[,DTYPE]");
  list("--add", flags->adds, "An Add of a length or shape; repeatable", "N[,DTYPE]");
  app->add_option("--template", flags->template_name, "The template of --gemm and --add")
      ->type_name("NAME");
  list("--set", flags->settings, "A parameter of it; repeatable", "NAME=VALUE");
  add_place_flags(*app, flags->places);
  app->add_option("-j,--jobs", flags->jobs,
                  "Worker processes; left out: one per core, as far as memory reaches")
      ->type_name("N");
  app->add_option("--time-limit", flags->time_limit, "Stop a kernel that compiles for longer")
      ->type_name("SECONDS")
      ->capture_default_str();
  app->add_option("--shard", flags->shard, "Only the i-th of n equal parts, i from 1 to n")
      ->type_name("I/N");
  app->add_flag("--dry-run", flags->dry_run, "List what would be built, and build nothing");
  app->add_flag("-q,--quiet", flags->quiet, "No progress on stderr");
  app->callback([&invocation, flags] {
    invocation.run = [flags](const GlobalFlags& global) { return build(global, *flags); };
  });
}

}  // namespace tilec::command
