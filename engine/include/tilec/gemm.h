// A planned GEMM: D = alpha·A·B + beta·C.
#pragma once

#include <memory>

#include "tilec/error.h"
#include "tilec/kernel.h"
#include "tilec/problem.h"
#include "tilec/scalar.h"
#include "tilec/stream.h"

namespace tilec {

struct PlanState;

// Device pointers of the plan's types and shapes. C is not read where beta is 0, and may then be
// left out if D is given. With d left out the result goes to c, in place. D may be C itself (with
// the same leading dimension) but share no other element with A, B or C. An array of no elements
// may be null.
struct GemmArguments {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  void* d = nullptr;
  Scalar alpha = 1.0f;
  Scalar beta = 0.0f;
  void* workspace = nullptr;  // of workspace_bytes(), aligned to 256; null: allocated on the stream
};

// Immutable, cheap to copy, usable from any thread, alive after its engine is gone.
class TILEC_EXPORT Gemm {
 public:
  // Enqueues the work on `stream`; on the host device, does it. Looks nothing up, locks and
  // allocates nothing. Throws Error{invalid_argument} for a null pointer, for overlapping operands
  // and for a scalar that the plan's type can't hold, Error{driver} where the launch fails.
  void run(const GemmArguments& arguments, Stream stream = default_stream()) const;

  // D = A·B. Throws Error{invalid_argument} too where T is not the plan's element type.
  template <class T>
  void run(const T* A, const T* B, T* D, Stream stream = default_stream()) const {
    expect_types(dtype_of<T>, dtype_of<T>);
    run(GemmArguments{.a = A, .b = B, .d = D}, stream);
  }

  const GemmProblem& problem() const;  // normalized
  PlanInfo info() const;
  Origin origin() const { return origin_; }
  const std::string& key() const;  // of its (first) kernel
  std::size_t workspace_bytes() const;

 private:
  friend class Engine;
  Gemm(std::shared_ptr<const PlanState> state, Origin origin)
      : state_(std::move(state)), origin_(origin) {}
  void expect_types(DType input, DType output) const;

  std::shared_ptr<const PlanState> state_;
  Origin origin_;
};

}  // namespace tilec
