// A made-up NVRTC of CUDA 11.8, from which tilec can learn no more than that.
extern "C" __attribute__((visibility("default"))) int nvrtcVersion(int* major, int* minor) {
  *major = 11;
  *minor = 8;
  return 0;
}
