// Which CUDA context a call works in, and putting things back afterwards.
#pragma once

#include <cstdint>

#include "device/driver.h"
#include "tilec/stream.h"

namespace tilec {

// True for the handles that stand for a default stream of whatever context is current.
inline bool is_default_stream(Stream stream) {
  return reinterpret_cast<std::uintptr_t>(stream) <= 2;
}

// Makes the right context current for its lifetime, if it isn't. A stream brings its own; for the
// default streams it is the current one if that is on the device, else the device's primary one.
class ContextScope {
 public:
  ContextScope(const Driver& driver, CUdevice device, CUcontext primary, Stream stream)
      : driver_(driver) {
    CUcontext current = nullptr;
    driver.check(driver.ctx_get_current(&current), "cuCtxGetCurrent");
    if (current == primary && is_default_stream(stream)) {
      context_ = primary;
      return;
    }
    enter(current, device, primary, stream);
  }
  ~ContextScope() {
    CUcontext ignored = nullptr;
    if (pushed_) driver_.ctx_pop_current(&ignored);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  CUcontext context() const { return context_; }

 private:
  void enter(CUcontext current, CUdevice device, CUcontext primary, Stream stream);
  void push(CUcontext context);

  const Driver& driver_;
  CUcontext context_ = nullptr;  // that is current now
  bool pushed_ = false;
};

// Lets this thread make calls during its lifetime that would break a stream capture in global mode.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) {
    driver.check(driver.exchange_capture_mode(&mode_), "cuThreadExchangeStreamCaptureMode");
  }
  ~RelaxedCapture() { driver_.exchange_capture_mode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace tilec
