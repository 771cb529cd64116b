# What the floors build on: spdlog, xxHash (header only), the CUDA headers, Boost.Context's stack
# switch. Nothing links CUDA: NVRTC and the driver are opened at run time. Who embeds tilec inherits
# spdlog and threads alone: the rest is linked as $<BUILD_INTERFACE:…>, which no export repeats.
find_package(Threads REQUIRED)
if(NOT TARGET spdlog::spdlog)  # a parent project may have brought its own
  find_package(spdlog CONFIG REQUIRED)
endif()

find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
mark_as_advanced(XXHASH_INCLUDE_DIR)
add_library(tilec_xxhash INTERFACE)
target_include_directories(tilec_xxhash SYSTEM INTERFACE ${XXHASH_INCLUDE_DIR})
target_compile_definitions(tilec_xxhash INTERFACE XXH_INLINE_ALL)

# spdlog as the distribution builds it, or header only, for a binary that travels.
add_library(tilec_spdlog INTERFACE)
if(TILEC_PORTABLE)
  target_include_directories(
    tilec_spdlog SYSTEM
    INTERFACE $<BUILD_INTERFACE:$<TARGET_PROPERTY:spdlog::spdlog_header_only,INTERFACE_INCLUDE_DIRECTORIES>>)
  target_compile_definitions(
    tilec_spdlog INTERFACE $<BUILD_INTERFACE:SPDLOG_HEADER_ONLY;FMT_HEADER_ONLY;SPDLOG_FMT_EXTERNAL>)
  target_link_libraries(tilec_spdlog INTERFACE Threads::Threads)
else()
  # A parent's target is in no export set of ours: tilec-config.cmake links spdlog's package instead.
  target_link_libraries(tilec_spdlog INTERFACE $<BUILD_INTERFACE:spdlog::spdlog>)
endif()

include(${CMAKE_CURRENT_LIST_DIR}/cuda.cmake)
if(NOT TILEC_CUDA_INCLUDE_DIR_FOUND)
  message(FATAL_ERROR
    "The headers cuda.h (CUDA 12 or later) and nvrtc.h were not found. Run tools/setup.sh, which fetches "
    "them, install a CUDA toolkit, or pass -DTILEC_CUDA_INCLUDE_DIR=FOLDER.")
endif()
message(STATUS "CUDA headers: ${TILEC_CUDA_INCLUDE_DIR_FOUND}; NVRTC: ${TILEC_NVRTC_FOUND}")
add_library(tilec_cuda_headers INTERFACE)
target_include_directories(tilec_cuda_headers SYSTEM INTERFACE ${TILEC_CUDA_INCLUDE_DIR_FOUND})

# Of Boost.Context only the switch between stacks is used. Where there is a static library its object
# files (assembly: three of them) go into our own archive, so that no program that embeds tilec needs
# Boost; else the shared library is linked. TILEC_BOOST_CONTEXT says which: static, shared, or nothing.
set(TILEC_BOOST_CONTEXT "")
if(TILEC_HOST_DEVICE)
  include(CheckCXXSymbolExists)
  check_cxx_symbol_exists(posix_spawn_file_actions_addchdir_np spawn.h TILEC_SPAWN_IN_A_FOLDER)
  if(NOT TILEC_SPAWN_IN_A_FOLDER)
    message(WARNING
      "The host device needs glibc 2.29 or later, and this one is older, so tilec is built without it: "
      "Device::host() and --device host will refuse. The rest works with glibc 2.28. "
      "-DTILEC_HOST_DEVICE=OFF says that this is meant.")
    set(TILEC_HOST_DEVICE OFF)
  endif()
endif()
if(TILEC_HOST_DEVICE)
  find_path(BOOST_CONTEXT_INCLUDE_DIR boost/context/detail/fcontext.hpp)
  find_library(BOOST_CONTEXT_ARCHIVE libboost_context.a)
  mark_as_advanced(BOOST_CONTEXT_INCLUDE_DIR BOOST_CONTEXT_ARCHIVE)
  if(BOOST_CONTEXT_INCLUDE_DIR AND BOOST_CONTEXT_ARCHIVE)
    set(TILEC_BOOST_CONTEXT static)
  elseif(NOT TILEC_PORTABLE)
    find_package(boost_context CONFIG QUIET)
    if(TARGET Boost::context)
      set(TILEC_BOOST_CONTEXT shared)
    endif()
  endif()
  if(NOT TILEC_BOOST_CONTEXT AND TILEC_PORTABLE AND BOOST_CONTEXT_INCLUDE_DIR)
    set(what "libboost_context.a, which TILEC_PORTABLE links,")
  else()
    set(what "Boost.Context")
  endif()
  if(NOT TILEC_BOOST_CONTEXT)
    message(WARNING
      "${what} was not found (Debian and Ubuntu: libboost-context-dev; Fedora: boost-devel, for the archive boost-static; Arch: boost), "
      "so tilec is built without the host device: Device::host() and --device host will refuse. "
      "Run tools/setup.sh, or configure with -DTILEC_HOST_DEVICE=OFF to say that this is meant.")
    set(TILEC_HOST_DEVICE OFF)
  endif()
endif()
if(TILEC_BOOST_CONTEXT STREQUAL static)
  set(boost_objects_dir ${PROJECT_BINARY_DIR}/boost_context)
  file(MAKE_DIRECTORY ${boost_objects_dir})
  execute_process(COMMAND ${CMAKE_AR} x ${BOOST_CONTEXT_ARCHIVE} WORKING_DIRECTORY ${boost_objects_dir}
                  COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB boost_objects ${boost_objects_dir}/*_gas.o)
  add_library(tilec_fibers INTERFACE)
  target_sources(tilec_fibers INTERFACE ${boost_objects})
  target_include_directories(tilec_fibers SYSTEM INTERFACE ${BOOST_CONTEXT_INCLUDE_DIR})
elseif(TILEC_BOOST_CONTEXT STREQUAL shared)
  add_library(tilec_fibers INTERFACE)
  target_link_libraries(tilec_fibers INTERFACE Boost::context)
endif()
