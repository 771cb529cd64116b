// Writes what a plan was made of into a folder, for reading.
#include "compile/dump.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <fstream>
#include <string_view>

namespace tilec {
namespace {

void write(const std::filesystem::path& file, const char* bytes, std::size_t size) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream.write(bytes, static_cast<std::streamsize>(size));
  stream.flush();
  if (!stream) throw std::runtime_error("can't write " + file.string());
}

void write(const std::filesystem::path& file, const std::vector<std::byte>& bytes) {
  write(file, reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

CompileRequest as_ptx(CompileRequest request) {
  constexpr std::string_view kSm = "sm_";  // the suffix, as in sm_90a, is kept
  request.target = Target::parse("compute_" + request.target.name().substr(kSm.size()));
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
    write(folder / (key + ".cu"), request.source.text.data(), request.source.text.size());
    for (const Header& header : request.source.headers) {
      if (stays_inside(header.name))
        write(folder / header.name, header.text.data(), header.text.size());
    }
    const std::string extension = artifact.kind == "host" ? "so" : artifact.kind;
    write(folder / (key + "." + extension), artifact.image);
    if (artifact.kind == "cubin") {
      write(folder / (key + ".ptx"), compiler.compile(as_ptx(request)).image);
    }
    return {};
  } catch (const std::exception& error) {
    return fmt::format("{} is not wholly dumped into {}: {}", request.name, folder.string(),
                       error.what());
  }
}

}  // namespace tilec
