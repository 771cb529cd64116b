// The kernels that an engine has ready, one per key, and the way to a new one: render → key →
// obtain → load. Thread-safe; one thread prepares a kernel, others that want the same wait for it.
#pragma once

#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "compile/obtain.h"
#include "device/backend.h"
#include "plan/select.h"

namespace tilec {

struct Kernel {
  std::shared_ptr<const LoadedKernel> loaded;  // null on an offline device
  cache::Key key;
  std::string image_id;  // the backend's name for the image
  cache::EntryPoint entry;
  std::string target;
  std::string builder;
  Origin origin = Origin::compiler;
  std::string origin_path;
  double compile_seconds = 0;
  std::string not_kept;
};

// A kernel, and where this request found it: in memory, or where the kernel came from.
struct Ready {
  std::shared_ptr<const Kernel> kernel;
  Origin origin = Origin::memory;
};

class KernelTable {
 public:
  KernelTable(std::shared_ptr<DeviceBackend> backend, const Options& options,
              std::shared_ptr<spdlog::logger> logger);

  // The kernel of this choice, ready for blocks of that shape. Throws as Obtainer::obtain and
  // DeviceBackend::load, and Error{unsupported} where the kernel's code does not go with the shape
  // on this device; a failure is not kept.
  Ready get(const Choice& choice, const Problem& problem, const LaunchShape& shape);
  cache::Key key(const Choice& choice, const Problem& problem) const;
  void clear();

  const Obtainer& obtainer() const { return obtainer_; }

 private:
  using Shared = std::shared_ptr<const Kernel>;
  Shared prepare(const KernelRequest& request);
  std::optional<Obtained> obtain(const KernelRequest& request, Tried& tried,
                                 const std::optional<ImageRejected>& rejection) const;
  Shared load(const KernelRequest& request, const Obtained& obtained);
  Shared load_ptx_instead(KernelRequest request, const ImageRejected& why);
  void make_ready(const Kernel& kernel, const LaunchShape& shape, const std::string& name) const;

  std::shared_ptr<DeviceBackend> backend_;
  std::shared_ptr<spdlog::logger> logger_;
  Obtainer obtainer_;
  std::mutex mutex_;  // of kernels_
  std::map<cache::Key, std::shared_future<Shared>> kernels_;
};

}  // namespace tilec
