// The one argument of every Add kernel. Shared by host and device: plain data, a fixed layout.
#pragma once

namespace tilec {

// Version 1. n contiguous elements each; out may be exactly a or b.
struct AddArgs {
  static constexpr int version = 1;

  const void* a;
  const void* b;
  void* out;
  long long n;
};
static_assert(sizeof(AddArgs) == 32 && alignof(AddArgs) == 8);

}  // namespace tilec
