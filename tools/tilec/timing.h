// How long a launch takes, measured through Device alone.
#pragma once

#include <functional>
#include <string>

#include "tilec/device.h"

namespace tilec::command {

struct Timing {
  double median_seconds = 0;  // of one launch
  double least_seconds = 0;
  int samples = 0;
  int launches = 1;    // of a sample
  std::string method;  // what a sample is, in words
};

// Launches once to warm up, then takes `samples` samples. On the host device a sample is one
// launch; on a GPU it is as many launches between two synchronisations as take about 20 ms, so that
// the waiting and the host's own time vanish unless a launch is shorter than the host takes to make
// it.
Timing measure(const Device& device, int samples, const std::function<void()>& launch);

}  // namespace tilec::command
