// Writes what a plan was made of into a folder, for reading.
#pragma once

#include <filesystem>
#include <string>

#include "compile/compiler.h"

namespace tilec {

// <key>.cu (the rendered source), its headers beside it, <key>.cubin (or .so), and <key>.ptx, which
// for a cubin is made anew where the compiler is at hand. Returns what went wrong, or nothing.
std::string dump_kernel(const std::filesystem::path& folder, const std::string& key,
                        const CompileRequest& request, const Artifact& artifact,
                        const Compiler& compiler);

}  // namespace tilec
