// tilec build: fills the cache ahead of time, in worker processes.
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <thread>

#include "build_report.h"
#include "cache_support.h"
#include "command.h"
#include "worker_pool.h"

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
  if (flags.jobs.empty())
    return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
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

// The part that runs: hands the missing kernels to workers and notes what becomes of them.
class Build {
 public:
  Build(BuildReport& report, const cache::Store& store, const Options& options, bool quiet)
      : report_(report), store_(store), options_(options), progress_(progress_style(quiet)) {}

  void note_present() {
    counts_.total = report_.results.size();
    for (std::size_t i = 0; i < report_.results.size(); ++i) {
      BuildResult& result = report_.results[i];
      if (!result.item.rejected.empty()) {
        fail(result, result.item.rejected, {});
      } else if (options_.cache_policy != CachePolicy::refresh && is_present(result.item.key)) {
        result.status = BuildResult::Status::present;
        ++counts_.present;
      } else {
        missing_.push_back(i);
      }
    }
    progress_.redraw(counts_);
  }

  int run(const PoolOptions& pool) {
    std::vector<std::string> tasks;
    for (const std::size_t i : missing_) {
      tasks.push_back(
          report_.results[i].item.task.dump(-1, ' ', true, Json::error_handler_t::replace));
    }
    const PoolEvents events{.on_outcome = [&](const Outcome& outcome) { note(outcome, pool); },
                            .on_message = [&](std::string_view line) { note_message(line); },
                            .on_tick = [&] { progress_.redraw(counts_); }};
    const int signal = run_pool(tasks, pool, events);
    report_.seconds = progress_.seconds();
    return signal;
  }

  const std::vector<std::size_t>& missing() const { return missing_; }

 private:
  bool is_present(const std::string& key) const {
    const cache::LookUpOptions builder{.require_builder = options_.require_builder};
    return store_.peek(*cache::Key::parse(key), builder).has_value();
  }

  void fail(BuildResult& result, const std::string& message, const std::string& log) {
    result.status = BuildResult::Status::failed;
    result.message = message;
    result.log = log;
    ++counts_.failed;
    progress_.step(counts_, "failed: " + result.item.label + ": " + message, true);
  }

  void note(const Outcome& outcome, const PoolOptions& pool) {
    BuildResult& result = report_.results[missing_[outcome.task]];
    result.seconds = outcome.seconds;
    if (outcome.kind == Outcome::Kind::timed_out) {
      const double limit = std::chrono::duration<double>(pool.time_limit).count();
      return fail(
          result,
          fmt::format("stopped after the time limit of {:g} s; --time-limit sets another", limit),
          {});
    }
    if (outcome.kind == Outcome::Kind::crashed) {
      const std::size_t end = outcome.text.find('\n');
      return fail(result, outcome.text.substr(0, end),
                  end == std::string::npos ? "" : outcome.text.substr(end + 1));
    }
    note_answer(result, Json::parse(outcome.text, nullptr, false));
  }

  void note_answer(BuildResult& result, const Json& answer) {
    if (!answer.is_object())
      return fail(result, "the worker's answer can't be read", answer.dump());
    if (const auto error = answer.find("error"); error != answer.end()) {
      return fail(result, error->value("message", ""), error->value("log", ""));
    }
    if (!is_present(answer.value("key", result.item.key))) {
      return fail(result, "it was compiled, but the cache did not keep it", {});
    }
    result.status = BuildResult::Status::built;
    ++counts_.built;
    progress_.step(counts_, fmt::format("{} in {:.2f} s", result.item.label, result.seconds),
                   false);
  }

  // Workers say the same things of the same cache: each once.
  void note_message(std::string_view line) {
    const std::string text(line);
    if (std::find(messages_.begin(), messages_.end(), text) != messages_.end()) return;
    messages_.push_back(text);
    progress_.message(text);
  }

  BuildReport& report_;
  const cache::Store& store_;
  const Options& options_;
  Progress progress_;
  Counts counts_;
  std::vector<std::size_t> missing_;
  std::vector<std::string> messages_;
};

std::vector<std::string> worker_command(const GlobalFlags& global) {
  std::vector<std::string> command{std::filesystem::read_symlink("/proc/self/exe").string()};
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
  PoolOptions pool{
      .command = worker_command(global), .processes = jobs(flags), .time_limit = time_limit(flags)};
  const Wanted all = wanted(flags);
  BuildReport report{.results = {},
                     .cache_dir = options.cache_dir.string(),
                     .shard = shard,
                     .dry_run = flags.dry_run};
  for (BuildItem& item : shard_of(build_list(all.requests, all.places, options), shard)) {
    report.results.push_back({.item = std::move(item)});
  }
  const cache::Store store = flags.dry_run ? open_store(options) : open_writable_store(options);
  {
    Build work(report, store, options, flags.quiet || flags.dry_run);
    work.note_present();
    pool.processes = std::min(pool.processes, static_cast<int>(work.missing().size()));
    if (!flags.dry_run) report.signal = work.run(pool);
  }
  // Killed workers leave temporary files.
  if (!flags.dry_run) store.sweep({.temporary_age = std::chrono::seconds(0)});
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
  app->add_option("-j,--jobs", flags->jobs, "Worker processes; left out: one per core")
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
