# tilec_embed_kernels(target manifest.json [ARCHS arch…] [DEVICES device…])
#
# Compiles the manifest's kernels when `target` is built and links them into it, as one bundle. The
# program includes "<target>_kernels.h" and hands the bundle to its engine:
#     options.bundles.push_back(<target>_kernels());
# Needs NVRTC where it is built (the machine's C++ compiler for DEVICES host), nothing where it runs.
function(tilec_embed_kernels target manifest)
  cmake_parse_arguments(PARSE_ARGV 2 embed "" "" "ARCHS;DEVICES")
  if(embed_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tilec_embed_kernels(${target}): what is ${embed_UNPARSED_ARGUMENTS}?")
  endif()
  if(NOT embed_ARCHS AND NOT embed_DEVICES)
    message(FATAL_ERROR "tilec_embed_kernels(${target}): name ARCHS (such as sm_80 sm_90), DEVICES, or both")
  endif()
  if(TARGET tilec_command)
    set(command $<TARGET_FILE:tilec_command>)
    set(built_command tilec_command)
  elseif(TILEC_COMMAND)
    set(command ${TILEC_COMMAND})
    set(built_command "")
  else()
    message(FATAL_ERROR "tilec_embed_kernels(${target}): there is no tilec command; build tilec with TILEC_BUILD_TOOLS=ON")
  endif()

  set(places "")
  foreach(arch IN LISTS embed_ARCHS)
    list(APPEND places --arch ${arch})
  endforeach()
  foreach(device IN LISTS embed_DEVICES)
    list(APPEND places --device ${device})
  endforeach()
  get_filename_component(manifest ${manifest} ABSOLUTE BASE_DIR ${CMAKE_CURRENT_SOURCE_DIR})
  string(MAKE_C_IDENTIFIER ${target} name)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name}_kernels)
  set(cache ${folder}/cache)
  set(bundle ${folder}/kernels.bundle)
  file(MAKE_DIRECTORY ${folder})
  # From nothing each time, so that the bundle holds the manifest's kernels and no older ones; nor
  # those of whoever builds, so that his variables don't count.
  set(clean ${CMAKE_COMMAND} -E env --unset=TILEC_CACHE_ROOTS --unset=TILEC_CACHE_BUNDLES
            --unset=TILEC_CACHE_POLICY TILEC_CACHE_MAX_BYTES=0)  # whatever the manifest asks for
  add_custom_command(
    OUTPUT ${bundle}
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${cache}
    COMMAND ${clean} ${command} build ${manifest} ${places} --quiet --cache-dir ${cache} --trust-shared ${cache}
    COMMAND ${clean} ${command} cache export ${bundle} --cache-dir ${cache} --trust-shared ${cache}
    DEPENDS ${manifest} ${built_command}
    COMMENT "Compiling the kernels of ${target}"
    VERBATIM)

  file(CONFIGURE OUTPUT ${folder}/${name}_kernels.h @ONLY CONTENT [[
// The kernels that @target@ was built with: a bundle for tilec::Options::bundles. Static storage.
#pragma once

#include <cstddef>
#include <span>

std::span<const std::byte> @name@_kernels();
]])
  file(CONFIGURE OUTPUT ${folder}/${name}_kernels.cpp @ONLY CONTENT [[
#include "@name@_kernels.h"

asm(R"(
    .section .rodata
    .balign 64
    .hidden @name@_kernels_start
    .global @name@_kernels_start
@name@_kernels_start:
    .incbin "@bundle@"
    .hidden @name@_kernels_end
    .global @name@_kernels_end
@name@_kernels_end:
    .text
)");

extern "C" const std::byte @name@_kernels_start[], @name@_kernels_end[];

std::span<const std::byte> @name@_kernels() { return {@name@_kernels_start, @name@_kernels_end}; }
]])
  set_source_files_properties(${folder}/${name}_kernels.cpp PROPERTIES OBJECT_DEPENDS ${bundle})
  target_sources(${target} PRIVATE ${folder}/${name}_kernels.cpp)
  target_include_directories(${target} PRIVATE ${folder})
endfunction()
