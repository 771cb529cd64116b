// A planned elementwise add: out = a + b.
#pragma once

#include <memory>

#include "tilec/error.h"
#include "tilec/kernel.h"
#include "tilec/problem.h"
#include "tilec/stream.h"

namespace tilec {

struct PlanState;

// Device pointers to contiguous tensors of the plan's shape and type, aligned to an element. `out`
// may be exactly a or b; any other overlap is refused. With no elements they may be null.
struct AddArguments {
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
};

// Immutable, cheap to copy, usable from any thread, alive after its engine is gone. Each sum is
// correctly rounded (modulo 2^32 for s32), so that the same inputs give the same bits from every
// template that ships, on every device; only which NaN a NaN is may differ.
class TILEC_EXPORT Add {
 public:
  // Enqueues the work on `stream`; on the host device, does it. Throws Error{invalid_argument} for
  // a null or misaligned pointer and for partly overlapping operands, Error{driver} where the
  // launch fails.
  void run(const AddArguments& arguments, Stream stream = default_stream()) const;

  // Throws Error{invalid_argument} too where T is not the plan's element type.
  template <class T>
  void run(const T* a, const T* b, T* out, Stream stream = default_stream()) const {
    expect_type(dtype_of<T>);
    run(AddArguments{.a = a, .b = b, .out = out}, stream);
  }

  const AddProblem& problem() const;
  PlanInfo info() const;
  Origin origin() const { return origin_; }
  const std::string& key() const;
  std::size_t workspace_bytes() const;

 private:
  friend class Engine;
  Add(std::shared_ptr<const PlanState> state, Origin origin)
      : state_(std::move(state)), origin_(origin) {}
  void expect_type(DType type) const;

  std::shared_ptr<const PlanState> state_;
  Origin origin_;
};

}  // namespace tilec
