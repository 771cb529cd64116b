# tilec_test(target [TSAN] [LABELS label…] SOURCES file… [LIBRARIES library…]): one doctest program. Each
# of its test cases becomes a ctest entry, labelled with LABELS and with the words of its TEST_SUITE, as
# in TEST_SUITE("host tsan"). A program that exits 77 is shown as skipped. The sanitizer builds make
# tilec_asan_tests, all programs, and tilec_tsan_tests, those that say TSAN.
function(tilec_test target)
  cmake_parse_arguments(PARSE_ARGV 1 test "TSAN" "" "SOURCES;LIBRARIES;LABELS")
  if(test_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tilec_test(${target}): what is ${test_UNPARSED_ARGUMENTS}?")
  endif()
  add_executable(${target} ${test_SOURCES})
  tilec_program(${target})
  target_link_libraries(${target} PRIVATE ${test_LIBRARIES} tilec_test_support)

  add_dependencies(tilec_asan_tests ${target})
  if(test_TSAN)
    add_dependencies(tilec_tsan_tests ${target})
  endif()

  set(list ${CMAKE_CURRENT_BINARY_DIR}/${target}_cases.cmake)
  add_custom_command(
    TARGET ${target} POST_BUILD
    BYPRODUCTS ${list}
    COMMAND ${CMAKE_COMMAND} -DTARGET=${target} -DPROGRAM=$<TARGET_FILE:${target}> -DOUTPUT=${list}
            "-DLABELS=${test_LABELS}" "-DENVIRONMENT=${tilec_test_environment}"
            -P ${PROJECT_SOURCE_DIR}/tools/cmake/list_test_cases.cmake
    VERBATIM)
  # A program that was not built has no cases.
  set(include ${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake)
  file(WRITE ${include} "if(EXISTS \"${list}\")\n  include(\"${list}\")\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${include})
endfunction()

add_custom_target(tilec_asan_tests)
add_custom_target(tilec_tsan_tests)
