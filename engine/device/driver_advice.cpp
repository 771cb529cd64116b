// The table of results with a cause outside of this program.
#include "device/driver_advice.h"

namespace tilec {
namespace {

// The enumerators are the driver's names for them.
#define TILEC_ADVICE(result, text) \
  { result, #result, text }
constexpr DriverAdvice kAdvice[] = {
    TILEC_ADVICE(CUDA_ERROR_NOT_INITIALIZED,
                 "this process was perhaps forked from one that had used CUDA, which does not "
                 "survive that; fork before its first use, or exec"),
    TILEC_ADVICE(CUDA_ERROR_DEINITIALIZED,
                 "the process is ending and the driver has shut down already"),
    TILEC_ADVICE(CUDA_ERROR_STUB_LIBRARY,
                 "this libcuda.so.1 is the toolkit's stub, not a driver; take its folder off "
                 "LD_LIBRARY_PATH and install NVIDIA's driver"),
    TILEC_ADVICE(CUDA_ERROR_DEVICE_UNAVAILABLE,
                 "the GPU is busy: its compute mode lets in one process only, or none, and "
                 "another has it; `nvidia-smi` shows the mode and who runs there"),
    TILEC_ADVICE(CUDA_ERROR_NO_DEVICE,
                 "the CUDA driver sees no GPU; is CUDA_VISIBLE_DEVICES set, or the container "
                 "started without its GPUs (`docker run --gpus all`)?"),
    TILEC_ADVICE(CUDA_ERROR_INVALID_DEVICE,
                 "CUDA_VISIBLE_DEVICES perhaps names a GPU that isn't there, or a MIG instance "
                 "that was removed; `nvidia-smi -L` lists them"),
    TILEC_ADVICE(CUDA_ERROR_DEVICE_NOT_LICENSED,
                 "this virtual GPU has no licence; `nvidia-smi -q` shows its state"),
    TILEC_ADVICE(CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
                 "libnvidia-ptxjitcompiler.so.1, a part of the driver, is missing; a container "
                 "gets it with NVIDIA_DRIVER_CAPABILITIES=compute,utility"),
    TILEC_ADVICE(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                 "the compiler is newer than the driver; update the driver, or compile with an "
                 "NVRTC that is no newer than the CUDA version `nvidia-smi` shows"),
    TILEC_ADVICE(CUDA_ERROR_OPERATING_SYSTEM,
                 "the system refused the driver something; may this user open /dev/nvidia*, and "
                 "does a limit (`ulimit -a`) or a sandbox stand in the way?"),
    TILEC_ADVICE(CUDA_ERROR_SYSTEM_NOT_READY,
                 "the fabric manager, which links the GPUs by NVSwitch, is not running or not "
                 "ready; start it (`systemctl start nvidia-fabricmanager`), of the driver's own "
                 "version"),
    TILEC_ADVICE(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
                 "the kernel's driver and libcuda.so.1 are of different versions, as after an "
                 "update; reboot, or reload the nvidia modules (in a container: start it anew)"),
    TILEC_ADVICE(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
                 "this libcuda.so.1 is of the cuda-compat package, which works with data-centre "
                 "GPUs only; take its folder off LD_LIBRARY_PATH (or remove the package) and "
                 "update the driver instead"),
    TILEC_ADVICE(CUDA_ERROR_MPS_CONNECTION_FAILED,
                 "the MPS daemon does not answer; start it (`nvidia-cuda-mps-control -d`), or "
                 "clear CUDA_MPS_PIPE_DIRECTORY"),
    TILEC_ADVICE(CUDA_ERROR_MPS_RPC_FAILURE,
                 "the MPS server does not answer; restart it, and see its log"),
    TILEC_ADVICE(CUDA_ERROR_MPS_SERVER_NOT_READY,
                 "the MPS server is starting anew, perhaps after a client's fault; try again"),
    TILEC_ADVICE(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED,
                 "the MPS server has as many clients as it takes; end one"),
    TILEC_ADVICE(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED,
                 "the GPU has no connections left for MPS clients; end one"),
    TILEC_ADVICE(CUDA_ERROR_UNKNOWN,
                 "often the nvidia_uvm module is not loaded, or this user may not open "
                 "/dev/nvidia*; `nvidia-modprobe -u -c=0` as root loads it, and after a suspend "
                 "`rmmod nvidia_uvm && modprobe nvidia_uvm`"),
};
#undef TILEC_ADVICE

}  // namespace

const DriverAdvice* driver_advice(CUresult result) {
  for (const DriverAdvice& advice : kAdvice) {
    if (advice.result == result) return &advice;
  }
  return nullptr;
}

}  // namespace tilec
