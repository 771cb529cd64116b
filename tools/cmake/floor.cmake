# tilec_floor(target): the settings that every library, tool and test of ours shares.
function(tilec_floor target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                                             VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion -Wshadow $<$<BOOL:${TILEC_WERROR}>:-Werror>)
  # At -O3 g++ 12's -Wrestrict is wrong about std::string (GCC bug 105651).
  target_compile_options(
    ${target} PRIVATE $<$<AND:$<CXX_COMPILER_ID:GNU>,$<CONFIG:Release>>:-Wno-restrict>)
  if(TILEC_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${TILEC_SANITIZE} -fno-sanitize-recover=all
                                            -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${TILEC_SANITIZE})
  endif()
endfunction()

# tilec_program(target): the same for an executable, which may have to travel.
function(tilec_program target)
  tilec_floor(${target})
  if(TILEC_PORTABLE)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()

# tilec_embed(target name FILES…): turns text files into one source of string constants, listed by
# `tilec::embedded::<name>()`, and adds it to the target.
function(tilec_embed target name)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DNAME=${name} -DOUTPUT=${output} "-DFILES=${ARGN}"
            -P ${PROJECT_SOURCE_DIR}/tools/cmake/embed.cmake
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
    DEPENDS ${ARGN} ${PROJECT_SOURCE_DIR}/tools/cmake/embed.cmake
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
