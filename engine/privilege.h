// Whose the environment is. Pure.
#pragma once

#include <sys/auxv.h>

namespace tilec {

// Whether the program has rights that whoever started it hasn't (set-user-id, file capabilities):
// then the environment, and every folder that it names, is a stranger's. The C library asks the
// same for its own variables.
inline bool is_privileged() {
  return getauxval(AT_SECURE) != 0;
}

}  // namespace tilec
