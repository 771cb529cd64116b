// tilec cache export, import: entries as one file.
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cache_support.h"
#include "format.h"

namespace tilec::command {
namespace {

Json report_json(const cache::BundleReport& report) {
  return {{"entries", report.entries},
          {"already_there", report.already_there},
          {"bytes", report.bytes},
          {"missing", report.missing},
          {"needed_bytes", report.needed_bytes},
          {"skipped", to_json(report.skipped)}};
}

void warn(const cache::BundleReport& report) {
  for (const cache::Miss& miss : report.skipped) {
    print_warning(fmt::format("left out: {}: {}", miss.path.string(), miss.detail));
  }
}

struct ExportFlags {
  std::string file;
  FilterFlags filter;
};

int export_file(const GlobalFlags& global, const ExportFlags& flags) {
  const cache::Filter filter = flags.filter.filter();
  const cache::BundleReport report = open_store(global.options()).export_bundle(flags.file, filter);
  if (!report.ok) throw Failure("nothing was exported: " + report.detail);
  Json json = report_json(report);
  json["file"] = flags.file;
  const std::string why = complaint_of(report.skipped);
  return finish(global,
                {std::move(json),
                 fmt::format("{}: {} {}, {}\n", flags.file, report.entries,
                             report.entries == 1 ? "entry" : "entries", human_bytes(report.bytes)),
                 "left_out", why.empty() ? "" : "not all was exported: " + why});
}

int import_file(const GlobalFlags& global, const std::string& file) {
  const cache::Store store = open_writable_store(global.options());
  const cache::BundleReport report = store.import_bundle(file);
  if (!report.ok && report.missing == 0) {
    throw Failure("nothing can be imported: " + report.detail);
  }
  warn(report);
  std::string fault = report.ok ? "" : report.detail;
  if (report.needed_bytes != 0) {
    fault += fmt::format("; TILEC_CACHE_MAX_BYTES={} is enough", report.needed_bytes);
  }
  Json json = report_json(report);
  json["file"] = file;
  return finish(global, {std::move(json),
                         fmt::format("{} {} imported ({}), {} already there\n", report.entries,
                                     report.entries == 1 ? "entry" : "entries",
                                     human_bytes(report.bytes), report.already_there),
                         "import", std::move(fault)});
}

}  // namespace

void register_cache_bundles(CLI::App& cache, Invocation& invocation) {
  auto* out = cache.add_subcommand("export", "Write entries to one file, a bundle");
  const auto flags = std::make_shared<ExportFlags>();
  out->add_option("file", flags->file, "The bundle to write")->required();
  add_filter_flags(*out, flags->filter);
  out->callback([&invocation, flags] {
    invocation.run = [flags](const GlobalFlags& global) { return export_file(global, *flags); };
  });

  auto* in = cache.add_subcommand("import", "Take the entries of a bundle into the own root");
  const auto file = std::make_shared<std::string>();
  in->add_option("file", *file, "The bundle to read")->required();
  in->callback([&invocation, file] {
    invocation.run = [file](const GlobalFlags& global) { return import_file(global, *file); };
  });
}

}  // namespace tilec::command
