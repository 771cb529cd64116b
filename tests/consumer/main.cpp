// Plans a matrix product for an H100 on whatever machine this is, logs through a logger of its own, and
// prints the kernel's key. The only argument is the cache folder.
#include <spdlog/logger.h>
#include <tilec/engine.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: consumer CACHE_DIR\n";
    return 2;
  }
  tilec::Options options = tilec::Options::from_env();
  options.cache_dir = argv[1];
  options.logger = std::make_shared<spdlog::logger>("consumer");
  try {
    const tilec::Engine engine(tilec::Device::offline(tilec::Target::parse("sm_90")), options);
    std::cout << engine.plan(512, 256, 128).key() << "\n";
  } catch (const tilec::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
