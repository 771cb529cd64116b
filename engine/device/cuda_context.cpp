// The slow cases of ContextScope: another context is current, or a stream brings one.
#include "device/cuda_context.h"

#include <spdlog/fmt/fmt.h>

namespace tilec {

void ContextScope::push(CUcontext context) {
  driver_.check(driver_.ctx_push_current(context), "cuCtxPushCurrent");
  pushed_ = true;
}

void ContextScope::enter(CUcontext current, CUdevice device, CUcontext primary, Stream stream) {
  CUcontext wanted = nullptr;
  if (is_default_stream(stream)) {
    CUdevice current_device = -1;
    if (current != nullptr) {
      driver_.check(driver_.ctx_get_device(&current_device), "cuCtxGetDevice");
    }
    wanted = current_device == device ? current : primary;
  } else {
    driver_.check(driver_.stream_get_ctx(stream, &wanted), "cuStreamGetCtx");
  }
  if (wanted != current) push(wanted);
  context_ = wanted;
  if (wanted == primary || is_default_stream(stream)) return;

  CUdevice stream_device = -1;
  const CUresult result = driver_.ctx_get_device(&stream_device);
  if (result == CUDA_SUCCESS && stream_device == device) return;
  CUcontext ignored = nullptr;
  if (pushed_) driver_.ctx_pop_current(&ignored);
  pushed_ = false;
  driver_.check(result, "cuCtxGetDevice");
  throw Error(ErrorKind::invalid_argument,
              fmt::format("the stream belongs to cuda:{}, the plan to cuda:{}; plan with an engine "
                          "for that device",
                          stream_device, device));
}

}  // namespace tilec
