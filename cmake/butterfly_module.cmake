# butterfly_module(name SOURCES … TESTS … SLOW_TESTS … BENCHES … FUZZERS … DEPS … TEST_DEPS … APART … HEADERS …)
#
# One folder, one static library butterfly::<name>, one test program, one benchmark program. Files are listed
# beside what they are; src/base/arrows_test.cc says when a file is in no list. APART: files that BUTTERFLY_UNITY leaves
# alone, because their private names are those of their neighbours. HEADERS: read once for all files of a build from clean;
# worth it where many files stay apart.
include(GoogleTest)

# A clean build spends most of its time reading the same headers for one small file after the other. Files of several
# instruction sets include themselves once for each, which works for one file at a time.
function(butterfly_unity target)
  if(NOT BUTTERFLY_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
  # GCC takes a file that is included for a header, in which types of unnamed namespaces would be a mistake.
  target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  get_target_property(sources ${target} SOURCES)
  foreach(file ${sources})
    set(targets "")
    if(NOT file IN_LIST ARGN)  # files that are made while building are not there yet: they stay apart
      file(STRINGS ${file} targets REGEX "HWY_TARGET_INCLUDE" LIMIT_COUNT 1)
    endif()
    if(targets OR file IN_LIST ARGN)
      set_source_files_properties(${file} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()

# Tests are joined by join_sources.cmake, which keeps their private names apart. Sets `result` to what is to be compiled.
function(butterfly_joined_tests target result)
  set(compiled "")
  set(batch "")
  foreach(file ${ARGN} "")
    set(targets "")
    if(file)
      file(STRINGS ${file} targets REGEX "HWY_TARGET_INCLUDE" LIMIT_COUNT 1)
    endif()
    if(file AND (NOT BUTTERFLY_UNITY OR targets OR NOT file MATCHES "_test\\.cc$"))
      list(APPEND compiled ${file})
      continue()
    endif()
    if(file)
      list(APPEND batch ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    endif()
    list(LENGTH batch count)
    if(batch AND (count EQUAL 5 OR NOT file))
      list(LENGTH compiled number)
      set(joined ${CMAKE_CURRENT_BINARY_DIR}/${target}_${number}.cc)
      list(JOIN batch "," sources)
      add_custom_command(OUTPUT ${joined} DEPENDS ${batch} ${PROJECT_SOURCE_DIR}/cmake/join_sources.cmake VERBATIM
        COMMAND ${CMAKE_COMMAND} -DOUTPUT=${joined} -DSOURCES=${sources} -P ${PROJECT_SOURCE_DIR}/cmake/join_sources.cmake
        COMMENT "Joining tests: ${target}_${number}.cc")
      list(APPEND compiled ${joined})
      set(batch "")
    endif()
  endforeach()
  set(${result} ${compiled} PARENT_SCOPE)
endfunction()

# Without these ccache does not keep files that use precompiled headers.
function(butterfly_cache_precompiled target)
  if(CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime;${CCACHE}")
  endif()
endfunction()

function(butterfly_test_options target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  butterfly_cache_precompiled(${target})
endfunction()

# Tests are compiled with less optimisation than what they test, and GoogleTest and rapidcheck are read once for all test
# programs: together a third of what an average test takes. Other heavy headers are not worth it: what CLI11 and
# nlohmann-json cost is not reading them but the templates each file makes of them (base/json_text.h is the cheap way to JSON).
# Sources still include what they use.
if(BUTTERFLY_TESTS)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/test_headers.cc CONTENT "")
  add_library(butterfly_test_headers STATIC ${CMAKE_BINARY_DIR}/test_headers.cc)
  target_link_libraries(butterfly_test_headers PRIVATE GTest::gtest rapidcheck Threads::Threads)
  target_precompile_headers(butterfly_test_headers PRIVATE <gtest/gtest.h> <rapidcheck.h> <rapidcheck/gtest.h>)
  butterfly_test_options(butterfly_test_headers)
endif()

function(butterfly_test_program target label)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  butterfly_joined_tests(${target} sources ${ARG_SOURCES})
  add_executable(${target} ${sources})
  target_link_libraries(${target} PRIVATE ${ARG_DEPS} butterfly_source_tree GTest::gmock GTest::gtest GTest::gtest_main rapidcheck)
  set(timeout 900)
  if(label STREQUAL "slow")
    set(timeout 3600)  # some build with a cross compiler first
  endif()
  set(properties LABELS ${label} TIMEOUT ${timeout})
  target_precompile_headers(${target} REUSE_FROM butterfly_test_headers)
  butterfly_test_options(${target})
  # Names as GoogleTest has them, so that a failing one can be given to --gtest_filter.
  gtest_discover_tests(${target} NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60 PROPERTIES ${properties})
endfunction()

function(butterfly_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;TESTS;SLOW_TESTS;BENCHES;FUZZERS;DEPS;TEST_DEPS;APART;HEADERS" ${ARGN})
  add_library(butterfly_${name} STATIC ${ARG_SOURCES})
  add_library(butterfly::${name} ALIAS butterfly_${name})
  target_include_directories(butterfly_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(butterfly_${name} PUBLIC ${ARG_DEPS})
  butterfly_unity(butterfly_${name} ${ARG_APART})
  if(BUTTERFLY_UNITY AND ARG_HEADERS)
    target_precompile_headers(butterfly_${name} PRIVATE ${ARG_HEADERS})
    butterfly_cache_precompiled(butterfly_${name})
  endif()

  if(BUTTERFLY_TESTS AND ARG_TESTS)
    butterfly_test_program(${name}_test fast SOURCES ${ARG_TESTS} DEPS butterfly::${name} ${ARG_TEST_DEPS})
  endif()
  if(BUTTERFLY_TESTS AND ARG_SLOW_TESTS)
    butterfly_test_program(${name}_slow_test slow SOURCES ${ARG_SLOW_TESTS} DEPS butterfly::${name} ${ARG_TEST_DEPS})
  endif()
  if(BUTTERFLY_BENCHES AND ARG_BENCHES)
    add_executable(${name}_bench ${ARG_BENCHES})
    target_link_libraries(${name}_bench PRIVATE butterfly::${name} butterfly_source_tree benchmark::benchmark benchmark::benchmark_main)
  endif()
  if(BUTTERFLY_FUZZ)
    foreach(file ${ARG_FUZZERS})
      get_filename_component(fuzzer ${file} NAME_WE)
      add_executable(${fuzzer} ${file})
      target_link_libraries(${fuzzer} PRIVATE butterfly::${name})
      target_link_options(${fuzzer} PRIVATE -fsanitize=fuzzer)
      # A minute of each among the slow tests of this build, from the inputs beside its source; what it finds stays in
      # the build's folder.
      get_filename_component(folder ${file} DIRECTORY)
      set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/${fuzzer}_corpus)
      if(NOT EXISTS ${corpus})
        set(corpus)
      endif()
      set(found ${CMAKE_CURRENT_BINARY_DIR}/${fuzzer}_found)
      file(MAKE_DIRECTORY ${found})
      add_test(NAME fuzz.${fuzzer}
               COMMAND ${fuzzer} -max_total_time=60 -max_len=1024 -rss_limit_mb=4096 -artifact_prefix=${found}/ ${found} ${corpus})
      set_tests_properties(fuzz.${fuzzer} PROPERTIES LABELS slow TIMEOUT 300)
    endforeach()
  endif()
endfunction()
