# What the floors build on: spdlog, xxHash (header only), the CUDA headers. Nothing links CUDA: NVRTC
# and the driver are opened at run time.
find_package(Threads REQUIRED)
find_package(spdlog CONFIG REQUIRED)

find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
add_library(tilec_xxhash INTERFACE)
target_include_directories(tilec_xxhash SYSTEM INTERFACE $<BUILD_INTERFACE:${XXHASH_INCLUDE_DIR}>)
target_compile_definitions(tilec_xxhash INTERFACE XXH_INLINE_ALL)

# spdlog as the distribution builds it, or header only, for a binary that travels.
add_library(tilec_spdlog INTERFACE)
if(TILEC_PORTABLE)
  target_include_directories(
    tilec_spdlog SYSTEM
    INTERFACE $<BUILD_INTERFACE:$<TARGET_PROPERTY:spdlog::spdlog_header_only,INTERFACE_INCLUDE_DIRECTORIES>>)
  target_compile_definitions(tilec_spdlog INTERFACE SPDLOG_HEADER_ONLY FMT_HEADER_ONLY SPDLOG_FMT_EXTERNAL)
else()
  target_link_libraries(tilec_spdlog INTERFACE spdlog::spdlog)
endif()

if(NOT TILEC_CUDA_INCLUDE_DIR)
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND)
    list(GET CUDAToolkit_INCLUDE_DIRS 0 TILEC_CUDA_INCLUDE_DIR_FOUND)
  endif()
else()
  set(TILEC_CUDA_INCLUDE_DIR_FOUND ${TILEC_CUDA_INCLUDE_DIR})
endif()
if(NOT EXISTS "${TILEC_CUDA_INCLUDE_DIR_FOUND}/nvrtc.h" OR NOT EXISTS "${TILEC_CUDA_INCLUDE_DIR_FOUND}/cuda.h")
  message(FATAL_ERROR
    "cuda.h and nvrtc.h were not found. Install a CUDA toolkit, or run tools/setup.sh, which fetches the "
    "headers as wheels and prints the -DTILEC_CUDA_INCLUDE_DIR=… to pass.")
endif()
add_library(tilec_cuda_headers INTERFACE)
target_include_directories(tilec_cuda_headers SYSTEM INTERFACE $<BUILD_INTERFACE:${TILEC_CUDA_INCLUDE_DIR_FOUND}>)
