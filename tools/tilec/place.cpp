// Naming targets and devices.
#include "place.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "arguments.h"
#include "facts_json.h"

namespace tilec::command {
namespace {

bool is_file_name(const std::string& device) {
  return device.find('/') != std::string::npos || device.ends_with(".json");
}

[[noreturn]] void throw_not_a_device(const std::string& device) {
  std::vector<std::string> names{"host", "cuda:0"};
  for (const DeviceFacts& facts : shipped_device_facts()) names.push_back(facts.name);
  const std::vector<std::string> near = similar(device, names);
  names.emplace_back("a file of facts such as ./gpu.json");
  throw UsageError("'" + device + "' is not a device; " +
                   (near.empty() ? "devices are " + either(names)
                                 : "did you mean " + either(near) + "? `tilec info` lists them"));
}

std::vector<std::string> words(const std::vector<std::string>& lists) {
  std::vector<std::string> all;
  for (const std::string& list : lists) {
    for (const std::string& word : split(list, ',')) all.push_back(word);
  }
  return all;
}

}  // namespace

std::string Place::name() const {
  if (target.kind() == Target::Kind::host) return "host";
  return facts ? facts->name + " (" + target.name() + ")" : target.name();
}

Device Place::open() const {
  if (target.kind() == Target::Kind::host) return Device::host();
  return facts ? Device::offline(target, *facts) : Device::offline(target);
}

Place place_of_arch(const std::string& arch) {
  try {
    return {.target = Target::parse(arch), .facts = {}};
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
}

Place place_of_device(const std::string& device) {
  if (device == "host") return {.target = Target::host(), .facts = {}};
  if (device == "cuda" || device.starts_with("cuda:")) {
    const Device found = Device::named(device);
    return {.target = found.target(), .facts = found.facts()};
  }
  std::optional<DeviceFacts> facts;
  if (is_file_name(device)) {
    const Json document = parse_json(read_text(device), device);
    facts = facts_from_json(Node(document, device));
  } else {
    facts = find_device_facts(device);
    if (!facts) throw_not_a_device(device);
  }
  return {.target = Target::parse(facts->target), .facts = facts};
}

std::vector<Place> PlaceFlags::places() const {
  std::vector<Place> all;
  for (const std::string& arch : words(archs)) all.push_back(place_of_arch(arch));
  for (const std::string& device : words(devices)) all.push_back(place_of_device(device));
  return all;
}

Place PlaceFlags::single() const {
  const std::vector<Place> all = places();
  if (all.size() > 1) throw UsageError("one --arch or one --device is enough here");
  if (all.size() == 1) return all.front();
  try {
    return place_of_device("cuda:0");
  } catch (const Error& error) {
    throw UsageError(
        std::string(
            "name what it is for with --arch sm_90a, --device h200 or --device host (no CUDA "
            "device to take instead: ") +
        error.what() + ")");
  }
}

void add_place_flags(CLI::App& app, PlaceFlags& flags) {
  app.add_option("--arch", flags.archs, "Targets, such as sm_80,sm_90a")
      ->type_name("ARCH")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--device", flags.devices,
                 "Devices: h200 and others that `tilec info` lists, a file of facts, host, cuda:0")
      ->type_name("DEVICE")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

Json to_json(const Place& place) {
  Json json{{"target", place.target.name()}};
  if (place.facts) json["facts"] = to_json(*place.facts);
  return json;
}

Place place_from_json(const Node& node) {
  Place place = place_of_arch(node.at("target").string());
  if (const auto facts = node.find("facts")) place.facts = facts_from_json(*facts);
  return place;
}

}  // namespace tilec::command
