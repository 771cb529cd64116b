// Writes what a plan was made of into a folder, for reading.
#include "compile/dump.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <span>
#include <stdexcept>

#include "tilec/user_file.h"

namespace tilec {
namespace {

void write(const std::filesystem::path& file, std::span<const std::byte> bytes) {
  const std::string problem = cache::replace_file(file, bytes);
  if (!problem.empty()) throw std::runtime_error(problem);
}

void write(const std::filesystem::path& file, const std::string& text) {
  write(file, std::as_bytes(std::span(text)));
}

CompileRequest as_ptx(CompileRequest request) {
  request.target = request.target.ptx();
  return request;
}

// A header of the user's may be called anything that an #include can say.
bool stays_inside(const std::filesystem::path& name) {
  return name.is_relative() && std::find(name.begin(), name.end(), "..") == name.end();
}

}  // namespace

std::string dump_kernel(const std::filesystem::path& folder, const std::string& key,
                        const CompileRequest& request, const Artifact& artifact,
                        const Compiler& compiler) {
  try {
    write(folder / (key + ".cu"), request.source.text);
    for (const Header& header : request.source.headers) {
      if (stays_inside(header.name)) write(folder / header.name, header.text);
    }
    const std::string extension = artifact.kind == "host" ? "so" : artifact.kind;
    write(folder / (key + "." + extension), artifact.image);
    if (artifact.kind == "cubin") {
      write(folder / (key + ".ptx"), compiler.compile(as_ptx(request)).image);
    }
    return {};
  } catch (const std::exception& error) {
    return fmt::format(
        "{} is not wholly dumped into {}: {}. Another folder can be "
        "named in TILEC_DUMP_DIR or Options::dump_dir",
        request.name, folder.string(), error.what());
  }
}

}  // namespace tilec
