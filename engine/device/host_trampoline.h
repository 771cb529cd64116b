// Stands after the kernel in its translation unit: exports the entry, TILEC_ENTRY, to the emulator.
#pragma once

namespace tilec {
namespace host {

template <class Argument>
inline void start(void (*entry)(Argument), const void* argument) {
  entry(*static_cast<const Argument*>(argument));
}

template <class... Arguments>
inline void start(void (*)(Arguments...), const void*) {
  static_assert(sizeof...(Arguments) == 1,
                "a kernel takes exactly one argument, a struct by value");
}

inline void run(const void* argument) {
  char text[256] = "the kernel threw an exception";
  try {
    start(&::TILEC_ENTRY, argument);
    return;
  } catch (const std::exception& error) {
    snprintf(text, sizeof text, "the kernel threw an exception: %s", error.what());
  } catch (...) {
  }
  // Outside of the handlers: the emulator never returns to this frame.
  fail({"throw", "", 0}, text);
}

inline Slots slots() {
  return {&threadIdx.x, &blockIdx.x, &blockDim.x, &gridDim.x, &block};
}

inline void connect(const Calls* emulator) {
  calls = emulator;
}

}  // namespace host
}  // namespace tilec

#define TILEC_TEXT_OF(name) #name
#define TILEC_NAME(name) TILEC_TEXT_OF(name)
extern "C" __attribute__((visibility("default"))) const tilec::host::Image tilec_host_image = {
    tilec::host::kAbi, TILEC_NAME(TILEC_ENTRY), tilec::host::connect, tilec::host::slots,
    tilec::host::run};
