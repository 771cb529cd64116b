// What the driver's results mean to the person who meets them: their names, which must be known
// before the driver can be asked, and what to do. Pure.
#pragma once

#include <cuda.h>

namespace tilec {

struct DriverAdvice {
  CUresult result;
  const char* name;
  const char* text;  // the cause and the remedy
};

// Null where there is nothing to say beyond the driver's own words.
const DriverAdvice* driver_advice(CUresult result);

}  // namespace tilec
