// Where kernels are for: an architecture, a device that is described by facts, or the host device.
// Values; opening one compiles and runs nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "json_node.h"
#include "tilec/device.h"

namespace CLI {
class App;
}

namespace tilec::command {

struct Place {
  Target target = Target::host();
  std::optional<DeviceFacts> facts;  // left out: those of a common device of the target

  std::string name() const;  // "sm_80", "h200 (sm_90a)", "host"
  // An offline device, or the host device.
  Device open() const;
};

// "sm_90a". Throws UsageError.
Place place_of_arch(const std::string& arch);
// A shipped device's name, a JSON file's (with a '/' or ending in .json), "host", or "cuda:0" for
// the facts of a GPU at hand. Throws UsageError, or Error{driver}.
Place place_of_device(const std::string& device);

// --arch and --device, each a list with commas and repeatable.
struct PlaceFlags {
  std::vector<std::string> archs, devices;

  bool empty() const { return archs.empty() && devices.empty(); }
  std::vector<Place> places() const;
  // The only one; where none is named, the first CUDA device's. Throws UsageError for several.
  Place single() const;
};
void add_place_flags(CLI::App& app, PlaceFlags& flags);

Json to_json(const Place& place);
Place place_from_json(const Node& node);

}  // namespace tilec::command
