# Builds the tilec command as the release preset does, in WORK_DIR, runs it, and looks at the shared
# libraries it needs.
foreach(command
    "${CMAKE_COMMAND};--preset;release;-B;${WORK_DIR};-DTILEC_CUDA_INCLUDE_DIR=${CUDA_INCLUDE_DIR};-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}"
    "${CMAKE_COMMAND};--build;${WORK_DIR};--target;tilec_command"
    "${WORK_DIR}/tools/tilec/tilec;info"
    "ldd;${WORK_DIR}/tools/tilec/tilec")
  execute_process(COMMAND ${command} WORKING_DIRECTORY ${SOURCE_DIR} RESULT_VARIABLE result
                  OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${command}: ${result}\n${output}")
  endif()
endforeach()

string(REGEX MATCHALL "lib[a-z0-9_+-]+\\.so" libraries "${output}")
list(REMOVE_ITEM libraries libc.so libm.so libpthread.so libdl.so librt.so)
if(libraries)
  message(FATAL_ERROR "the portable command needs ${libraries}")
endif()
