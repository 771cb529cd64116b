// What the system's loader tells of the libraries that it has opened.
#pragma once

#include <filesystem>

namespace tilec {

// Where dlopen found it; empty where the loader doesn't tell.
std::filesystem::path path_of(void* library);

}  // namespace tilec
