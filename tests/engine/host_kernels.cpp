// See host_kernels.h.
#include "tests/engine/host_kernels.h"

namespace tilec::test {

std::string host_kernel_text(const std::string& body) {
  return "#include \"tilec/shared_memory.h\"\n"
         "struct Args { void* out; const void* in; long long n; };\n"
         "#line 1 \"/tilec/test.cu\"\n" +
         body;
}

CompileRequest host_request(const std::string& text, const std::string& entry) {
  return {
      .source = {.text = text, .entry = entry, .headers = device_headers(), .toolkit_headers = {}},
      .target = Target::host(),
      .options = {},
      .name = "test kernel"};
}

Artifact compile_for_host(const std::string& text, const std::string& entry) {
  return host_compiler({})->compile(host_request(text, entry));
}

HostKernelRun::HostKernelRun(const Artifact& artifact, HostOptions options)
    : device_(host_backend(options)),
      kernel_(device_->load({.id = "test",
                             .entry = artifact.entries.front().name,
                             .message = "test kernel",
                             .bytes = artifact.image},
                            0)) {}

HostKernelRun::HostKernelRun(const std::string& body, HostOptions options)
    : HostKernelRun(compile_for_host(host_kernel_text(body)), options) {}

void HostKernelRun::launch(const LaunchShape& shape, const HostArgs& arguments) const {
  device_->launch(*kernel_, shape, &arguments, nullptr);
}

std::string message_of(ErrorKind kind, const std::function<void()>& call) {
  const Error error = error_of(call);
  CHECK(to_string(error.kind()) == to_string(kind));
  return error.what();
}

std::vector<NamedOptions> host_orders() {
  return {{"in order", {.order = HostOrder::in_order}},
          {"reversed", {.order = HostOrder::reversed}},
          {"random 1", {.order = HostOrder::random, .seed = 1}},
          {"random 2", {.order = HostOrder::random, .seed = 2}},
          {"warp greedy", {.order = HostOrder::warp_greedy}},
          {"warp greedy, reversed", {.order = HostOrder::warp_greedy, .seed = 1}},
          {"warp greedy, random", {.order = HostOrder::warp_greedy, .seed = 7}}};
}

}  // namespace tilec::test
