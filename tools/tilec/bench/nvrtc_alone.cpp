// The rival of a cold plan: NVRTC, called as one would without an engine.
#include "bench/nvrtc_alone.h"

#include "compile/nvrtc_library.h"
#include "output.h"

namespace tilec::bench {

struct NvrtcAlone::Library {
  NvrtcLibrary nvrtc;
};

NvrtcAlone::NvrtcAlone(const NvrtcLocation& location)
    : library_(std::make_unique<Library>(Library{NvrtcLibrary::open(location)})) {}
NvrtcAlone::~NvrtcAlone() = default;

void NvrtcAlone::compile(const Source& source, const std::string& target) const {
  const NvrtcLibrary& nvrtc = library_->nvrtc;
  std::vector<const char*> texts, names;
  for (const Header& header : source.headers) {
    texts.push_back(header.text.c_str());
    names.push_back(header.name.c_str());
  }
  const std::string architecture = "--gpu-architecture=" + target;
  const char* const options[] = {architecture.c_str(), "--std=c++20", "-Xptxas", "-v",
                                 "--no-cache"};
  nvrtcProgram program = nullptr;
  std::size_t size = 0;
  const bool made =
      nvrtc.create_program(&program, source.text.c_str(), "/dev/null/tilec/prologue.cu",
                           static_cast<int>(texts.size()), texts.data(),
                           names.data()) == NVRTC_SUCCESS &&
      nvrtc.compile_program(program, 5, options) == NVRTC_SUCCESS &&
      nvrtc.get_cubin_size(program, &size) == NVRTC_SUCCESS;
  std::vector<char> cubin(size);
  if (!made || nvrtc.get_cubin(program, cubin.data()) != NVRTC_SUCCESS) {
    throw command::Failure("NVRTC alone does not compile what the engine compiles");
  }
  nvrtc.destroy_program(&program);
}

}  // namespace tilec::bench
