// The floors below throw the standard library's exceptions; here they become tilec's.
#pragma once

#include <stdexcept>

#include "tilec/error.h"

namespace tilec {

// Calls it. std::invalid_argument becomes Error{invalid_argument}, std::domain_error
// Error{unsupported}.
template <class Function>
auto translated(const Function& function) {
  try {
    return function();
  } catch (const std::invalid_argument& error) {
    throw Error(ErrorKind::invalid_argument, error.what());
  } catch (const std::domain_error& error) {
    throw Error(ErrorKind::unsupported, error.what());
  }
}

}  // namespace tilec
