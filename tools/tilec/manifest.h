// Manifests: JSON documents of the problems that `tilec build` is to make kernels for.
// tools/README.md describes the format for people.
#pragma once

#include <string>
#include <vector>

#include "arguments.h"
#include "json_node.h"

namespace tilec::command {

struct ManifestRequest {
  Request request;
  bool skip_impossible = false;  // leave out combinations that the template rejects
};

struct Manifest {
  std::vector<ManifestRequest> requests;
  std::vector<std::string> archs;
  std::vector<std::string> devices;
};

// Reads a manifest ("-": the standard input): one object with "problems", an array of problems, or
// problems one a line, as recording writes them. Lists and ranges are expanded, in order. Throws
// UsageError, naming the file, the place in it and what is allowed.
Manifest read_manifest(const std::string& path);
Manifest parse_manifest(std::string_view text, const std::string& file);

}  // namespace tilec::command
