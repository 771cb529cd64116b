#include "compile/fork_aware.h"

#include "fork.h"

namespace tilec {
namespace {

template <class Call>
auto inside_nvrtc(const Call& call) {
  if (forked_inside(Library::nvrtc)) {
    throw Error(ErrorKind::driver,
                "a kernel has to be compiled, and this process was forked while another thread was "
                "compiling: NVRTC does not work in such a child. Fork before the first plan, exec, "
                "or fill the cache beforehand");
  }
  const InLibrary here(Library::nvrtc);
  return call();
}

class ForkAwareCompiler final : public Compiler {
 public:
  explicit ForkAwareCompiler(std::unique_ptr<Compiler> nvrtc) : nvrtc_(std::move(nvrtc)) {}

  std::vector<std::string> options(const Target& target) const override {
    return nvrtc_->options(target);
  }
  Target nearest_target(const Target& target) const override {
    return inside_nvrtc([&] { return nvrtc_->nearest_target(target); });
  }
  std::string builder(const CompileRequest& request) const override {
    return inside_nvrtc([&] { return nvrtc_->builder(request); });
  }
  Artifact compile(const CompileRequest& request) const override {
    return inside_nvrtc([&] { return nvrtc_->compile(request); });
  }

 private:
  std::unique_ptr<Compiler> nvrtc_;
};

}  // namespace

std::unique_ptr<Compiler> fork_aware(std::unique_ptr<Compiler> nvrtc) {
  return std::make_unique<ForkAwareCompiler>(std::move(nvrtc));
}

}  // namespace tilec
