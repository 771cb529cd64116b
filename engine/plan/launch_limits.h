// What a launch may ask for, checked when it is planned. Pure.
#pragma once

#include <string>

#include "plan/select.h"
#include "tilec/cache_entry.h"

namespace tilec {

// Throws Error{unsupported}, with the value and the limit, for a grid, block or dynamic shared memory
// that CUDA or the device can't have, whatever the kernel's code is.
void expect_launchable(const Choice& choice, const LaunchShape& shape, const DeviceFacts& facts);

// The same for what the compiled code adds: static shared memory, registers, launch bounds. `name`
// is how errors call the kernel. The shape is launchable.
void expect_fits(const cache::EntryPoint& entry, const LaunchShape& shape, const DeviceFacts& facts,
                 const std::string& name);

}  // namespace tilec
