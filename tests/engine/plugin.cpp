// A plugin of a host program: a shared object with hidden visibility that links tilec itself and
// throws its error.
#include <tilec/engine.h>

extern "C" __attribute__((visibility("default"))) void plan_nonsense() {
  const tilec::Engine engine(tilec::Device::offline(tilec::Target::parse("sm_80")),
                             tilec::Options{});
  engine.plan(tilec::GemmProblem{.M = 1, .N = 1, .K = 1}, {.template_name = "nonsense"});
}
