# cmake --install, and the package that find_package(tilec) finds.
include(CMakePackageConfigHelpers)
install(TARGETS tilec_cache tilec_kernel_templates tilec_engine tilec_xxhash tilec_spdlog tilec_cuda_headers
        EXPORT tilec_targets)
