# How a C++ test becomes a target and an entry of ctest.

find_package(GTest REQUIRED)
include(GoogleTest)

# ThreadSanitizer refuses address spaces that are laid out too randomly; where the kernel may, tests run without that.
if(SYMCCL_SANITIZE MATCHES "thread")
  execute_process(COMMAND setarch -R true RESULT_VARIABLE refused OUTPUT_QUIET ERROR_QUIET)
  if(NOT refused)
    set(CMAKE_CROSSCOMPILING_EMULATOR setarch -R)
  endif()
endif()

# symccl_test(<name> SOURCES <file>... [LINKS <target>...] [LABELS <label>...] [TIMEOUT <seconds>] [SERIAL] [WHOLE])
#
# One executable with gtest_main, which may include every header of the project, private ones too ("layer/file.hpp").
#   LINKS    what it links; symccl_static where nothing is said. Naming layers (symccl_base symccl_kernels) instead tests
#            them without what stands above; then name each layer whose code is needed, for links do not bring more.
#   LABELS   for `ctest -L`: always 'cpp' and what is said here.
#   TIMEOUT  the watchdog of one entry of ctest, in seconds; 60 where nothing is said; five times that under a sanitizer.
#   SERIAL   not beside other tests: for those that start many ranks.
#   WHOLE    one entry of ctest for the whole executable, for suites of very many short cases; else one entry a case.
function(symccl_test name)
  cmake_parse_arguments(TEST "SERIAL;WHOLE" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  if(TEST_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "symccl_test(${name}): what is '${TEST_UNPARSED_ARGUMENTS}'?")
  endif()
  if(NOT TEST_LINKS)
    set(TEST_LINKS symccl_static)
  endif()
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 60)
  endif()
  if(SYMCCL_SANITIZE)
    math(EXPR TEST_TIMEOUT "${TEST_TIMEOUT} * 5")
  endif()

  add_executable(${name} ${TEST_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE symccl_internal ${TEST_LINKS} GTest::gtest_main)
  list(PREPEND TEST_LABELS cpp)
  if(TEST_WHOLE)
    add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(${name} PROPERTIES TIMEOUT ${TEST_TIMEOUT} LABELS "${TEST_LABELS}" RUN_SERIAL ${TEST_SERIAL})
  else()
    gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                         PROPERTIES TIMEOUT ${TEST_TIMEOUT} LABELS "${TEST_LABELS}" RUN_SERIAL ${TEST_SERIAL})
  endif()
endfunction()
