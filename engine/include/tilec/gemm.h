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

// Device pointers of the plan's types and shapes. With d left out the result goes to c, in place. D
// may be C itself (with the same leading dimension) but share no other element with A, B or C.
//
// C is not read where beta is 0, and may then be left out if D is given. A and B are not read where
// alpha or K is 0, and may be left out; nor does alpha count where K is 0, be it infinite. The
// result is beta·C then: zeros for beta = 0, and for beta = 1 the bits of C as they are. Elsewhere
// alpha·A·B + beta·C is computed as written, so that NaNs, infinities and zeros of either sign go
// their way. An array of no elements may be null.
struct GemmArguments {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  void* d = nullptr;
  Scalar alpha = 1.0f;
  Scalar beta = 0.0f;
  void* workspace = nullptr;  // of workspace_bytes(), aligned to 256
};

// Immutable, cheap to copy, usable from any thread, alive after its engine is gone.
//
// What may be relied upon, of the templates that ship:
// - The same plan on the same inputs gives the same bits: run after run, on any stream, from any
//   thread, several at once.
// - For a given N, K, template, parameters, alpha and beta, a row of D has the same bits whatever M
//   is, wherever in A the row stands and whatever the other rows hold. Without a name in
//   PlanOptions another M may get another template or other parameters (info() tells), which
//   promise no more than the bound below.
// - With S = |alpha|·|A||B| + |beta|·|C| and n = K + 2, an element is off by at most
//   n·u·S / (1 - n·u) before it is rounded to D's type, where u = 2^-24 for sums in f32, 2^-53 in
//   f64, 2^-11 in f16 and 2^-8 in bf16: for n < 1/u, and as long as nothing overflows or falls below
//   the normal numbers. Terms of random sign stay near √K·u·S. Sums of positive numbers need not:
//   once a sum is 1/u times its next term it stops growing, so that 2^25 ones make 2^24 in f32. For
//   more than some 2^20 of them sum in f64, or cut K into parts and add these up with beta = 1. s32
//   is exact modulo 2^32.
class TILEC_EXPORT Gemm {
 public:
  // Enqueues the work on `stream`; on the host device, does it. Looks nothing up, locks and
  // allocates nothing. Throws Error{invalid_argument} for a null pointer, for overlapping operands
  // and for a scalar that the plan's type can't hold, Error{driver} where the launch fails.
  void run(const GemmArguments& arguments, Stream stream = default_stream()) const;

  // D = A·B, its rows ldd apart (ldc, where the problem gives only that). Throws
  // Error{invalid_argument} too where T is not the plan's element type.
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
