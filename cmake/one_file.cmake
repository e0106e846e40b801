# `cmake --build build/release --target butterfly_one_file`: the program as one file that needs nothing but a Linux kernel: the same
# objects, linked with static libraries. Of libraries that Debian has no static form of, cmake/one_file has what is needed.
set(one_file_modules cli server runtime cluster train model nn graph kernels tensor base)
set(one_file_libraries hwloc lz4 zstd ssl crypto pcre2-8 png16 z jpeg yaml-cpp utf8proc)
if(LIBEDIT_FOUND)
  list(APPEND one_file_libraries edit tinfo bsd md)
endif()
set(missing "")
foreach(name ${one_file_libraries})
  find_library(ONE_FILE_${name} lib${name}.a)
  mark_as_advanced(ONE_FILE_${name})
  if(ONE_FILE_${name})
    list(APPEND one_file_paths ${ONE_FILE_${name}})
  else()
    list(APPEND missing lib${name}.a)
  endif()
endforeach()
if(missing)
  message(STATUS "No program of one file can be made: ${missing} are not here")
  return()
endif()

# No library of MPI is a static one. A definition here goes before the one of the module.
set(one_file_mpi "")
if(BUTTERFLY_WITH_MPI)
  set(one_file_mpi ${PROJECT_SOURCE_DIR}/src/cluster/transport/no_mpi.cc)
endif()
add_executable(butterfly_one_file EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/src/cli/main.cc ${one_file_mpi} cmake/one_file/fmt.cc
               cmake/one_file/hwy_targets.cc cmake/one_file/no_udev.cc cmake/one_file/spdlog.cc cmake/one_file/tomlplusplus.cc)
# Not named butterfly: a target of that name is there.
set_target_properties(butterfly_one_file PROPERTIES OUTPUT_NAME butterfly-one-file RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/one-file)
target_include_directories(butterfly_one_file PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(butterfly_one_file PRIVATE SPDLOG_COMPILED_LIB SPDLOG_FMT_EXTERNAL TOML_HEADER_ONLY=0 HWY_WANT_AVX3_DL=1
  $<TARGET_PROPERTY:butterfly_hwy,INTERFACE_COMPILE_DEFINITIONS>)
list(TRANSFORM one_file_modules PREPEND "butterfly_")
add_dependencies(butterfly_one_file ${one_file_modules})
list(TRANSFORM one_file_modules REPLACE "(.+)" "$<TARGET_FILE:\\1>")
target_link_libraries(butterfly_one_file PRIVATE -Wl,--start-group ${one_file_modules} -Wl,--end-group ${one_file_paths} m dl)
target_link_options(butterfly_one_file PRIVATE -static-pie -s)
