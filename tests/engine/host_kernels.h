// Small kernels for the tests of the host device: compiled, loaded, launched. Everything throws
// what the engine's compiler and backend throw.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compile/compiler.h"
#include "device/backend.h"
#include "tests/engine/support.h"

namespace tilec::test {

// Most kernels of these tests take this: some memory and a number.
struct HostArgs {
  void* out = nullptr;
  const void* in = nullptr;
  long long n = 0;
};

// Its text, for the kernels, with what they include.
std::string host_kernel_text(const std::string& body);

CompileRequest host_request(const std::string& text, const std::string& entry = "kernel");
Artifact compile_for_host(const std::string& text, const std::string& entry = "kernel");

// A kernel on a host device of its own.
class HostKernelRun {
 public:
  explicit HostKernelRun(const Artifact& artifact, HostOptions options = {});
  // Compiles host_kernel_text(body).
  explicit HostKernelRun(const std::string& body, HostOptions options = {});

  void launch(const LaunchShape& shape, const HostArgs& arguments) const;
  DeviceBackend& device() const { return *device_; }

 private:
  std::shared_ptr<DeviceBackend> device_;
  std::shared_ptr<const LoadedKernel> kernel_;
};

struct NamedOptions {
  std::string name;
  HostOptions options;
};
// Every scheduling order, those with a seed under several.
std::vector<NamedOptions> host_orders();

// The message of the tilec::Error that the call throws, which must be of that kind.
std::string message_of(ErrorKind kind, const std::function<void()>& call);

}  // namespace tilec::test
