// Plans as main.cpp does, from the kernels that it was linked with: no cache folder, no compiler.
#include <tilec/engine.h>

#include <iostream>

#include "carrier_kernels.h"

int main() {
  tilec::Options options;
  options.cache_policy = tilec::CachePolicy::must_hit;
  options.bundles.push_back(carrier_kernels());
  try {
    const tilec::Engine engine(tilec::Device::offline(tilec::Target::parse("sm_90")), options);
    std::cout << engine.plan(512, 256, 128).key() << "\n";
  } catch (const tilec::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
