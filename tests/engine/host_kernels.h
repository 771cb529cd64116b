// Small kernels for the tests of the host device: compiled, loaded, launched. Everything throws
// what the engine's compiler and backend throw.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "compile/compiler.h"
#include "device/backend.h"

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

// The message of the tilec::Error that the call throws; fails the test if it throws none.
template <class Call>
std::string error_of(ErrorKind kind, Call call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(to_string(error.kind()) == to_string(kind));
    return error.what();
  }
  FAIL_CHECK("no error");
  return {};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace tilec::test
