// What the `tilec cache` subcommands share: opening the store, naming entries, showing them.
#pragma once

#include <chrono>
#include <string>

#include "command.h"
#include "output.h"
#include "tilec/cache.h"

namespace tilec::command {

struct FilterFlags {
  std::string target, template_name, builder, kind, key;

  // Throws UsageError for what can be no target, builder, kind or key.
  cache::Filter filter() const;
};
void add_filter_flags(CLI::App& app, FilterFlags& flags);

// The store that these options describe, to look at: nothing is created, written or removed. Faults
// of its roots are warned of on stderr. Throws UsageError where there is nothing to open.
cache::Store open_store(const Options& options);
// The same to change. Throws Failure, with the reason, where nothing could be written.
cache::Store open_writable_store(const Options& options);
// The same to change if need be: where nothing can be written, expect_writable() throws Failure with
// the reason.
cache::Store open_store_to_fill(const Options& options);
void expect_writable(const cache::Store& store);

// All 32 hexadecimal digits, or enough of the first (4 or more) to name one key of the store.
// Throws UsageError for what is no key, Failure for none or several.
cache::Key find_key(const cache::Store& store, const std::string& text);
void expect_key_or_prefix(const std::string& text);  // throws UsageError

// What a subcommand did, and what it could not.
struct Finished {
  Json json;
  std::string text;
  std::string kind;       // of the complaint
  std::string complaint;  // empty if all was done
};
// Prints it, the complaint on stderr too. Returns the exit status.
int finish(const GlobalFlags& global, Finished finished);

// Of what could not be read or removed: the first, and how many more. Empty if there is none.
std::string complaint_of(const std::vector<cache::Miss>& misses);

Json to_json(const std::vector<cache::Miss>& misses);
Json to_json(const cache::Listed& listed);
Json to_json(const cache::Miss& miss);
std::string describe(const std::map<std::string, std::string>& parameters);
std::string utc(std::chrono::system_clock::time_point time);  // "2026-01-31T12:00:00Z"
std::string age(std::chrono::system_clock::time_point time);  // "5 min", "3 d"

}  // namespace tilec::command
