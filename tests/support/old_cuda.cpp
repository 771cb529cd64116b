// A made-up libcuda.so.1 from before cuGetProcAddress_v2, as drivers of CUDA 11 are.
extern "C" __attribute__((visibility("default"))) int cuInit(unsigned) {
  return 0;
}
