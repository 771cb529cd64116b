# Writes OUTPUT, a ctest script with an entry for each test case of PROGRAM (see test.cmake). Run after
# each build of PROGRAM.
execute_process(COMMAND ${PROGRAM} --list-test-cases --no-skip=true --reporters=xml
                OUTPUT_VARIABLE listing ERROR_VARIABLE errors RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} --list-test-cases: ${result}\n${listing}${errors}")
endif()

# Brackets and semicolons mean something in CMake's lists; XML's escapes give way to the text.
string(REPLACE "[" "@open@" listing "${listing}")
string(REPLACE "]" "@close@" listing "${listing}")
string(REPLACE ";" "@semicolon@" listing "${listing}")
string(REPLACE "\n" ";" listing "${listing}")
function(plain_text variable)
  set(text "${${variable}}")
  foreach(pair "@open@=[" "@close@=]" "&lt@semicolon@=<" "&gt@semicolon@=>" "&quot@semicolon@=\""
          "&apos@semicolon@='" "&amp@semicolon@=&")
    string(FIND "${pair}" "=" at)
    string(SUBSTRING "${pair}" 0 ${at} from)
    math(EXPR at "${at} + 1")
    string(SUBSTRING "${pair}" ${at} -1 to)
    string(REPLACE "${from}" "${to}" text "${text}")
  endforeach()
  string(REPLACE "@semicolon@" ";" text "${text}")
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

set(script "")
foreach(line IN LISTS listing)
  if(NOT line MATCHES "<TestCase name=\"([^\"]*)\"")
    continue()
  endif()
  set(name "${CMAKE_MATCH_1}")
  plain_text(name)
  set(labels ${LABELS})
  if(line MATCHES "testsuite=\"([^\"]*)\"")
    string(REPLACE " " ";" suite "${CMAKE_MATCH_1}")
    list(APPEND labels ${suite})
  endif()
  list(REMOVE_DUPLICATES labels)
  string(REPLACE "," "\\," filter "${name}")
  # A filter that matches nothing would pass.
  string(APPEND script
    "add_test([==[${TARGET}: ${name}]==] [==[${PROGRAM}]==] --case-sensitive=true [==[--test-case=${filter}]==])\n"
    "set_tests_properties([==[${TARGET}: ${name}]==] PROPERTIES SKIP_RETURN_CODE 77\n"
    "  FAIL_REGULAR_EXPRESSION [==[test cases: +0 ]==]\n"
    "  LABELS [==[${labels}]==] ENVIRONMENT [==[${ENVIRONMENT}]==])\n")
endforeach()
if(script STREQUAL "")
  message(FATAL_ERROR "${PROGRAM} has no test case")
endif()
file(WRITE ${OUTPUT} "${script}")
