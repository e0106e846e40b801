# `cmake --build build/release --target butterfly_library`: all that programs need to use Butterfly as a library, in one folder as
# it will be installed: headers, one static library, and what find_package() and pkg-config read. `cmake --install` takes it along
# when it was made. It links other people's libraries, which the program that uses it needs too; a shared library cannot
# be made of it, because the objects are compiled for programs (-fPIE).
set(library ${CMAKE_BINARY_DIR}/library)
set(library_modules base tensor kernels graph nn model train cluster runtime butterfly)
set(library_needs fmt spdlog libhwy libpcre2-8 libutf8proc tomlplusplus hwloc liblz4 libzstd openssl libpng libjpeg zlib yaml-cpp)
if(BUTTERFLY_WITH_MPI)
  list(APPEND library_needs ompi-c)
endif()
list(JOIN library_needs " " library_needs)
configure_file(${PROJECT_SOURCE_DIR}/cmake/butterflyConfig.cmake.in ${library}/lib/cmake/butterfly/butterflyConfig.cmake @ONLY)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${library}/lib/cmake/butterfly/butterflyConfigVersion.cmake COMPATIBILITY SameMinorVersion)
configure_file(${PROJECT_SOURCE_DIR}/cmake/butterfly.pc.in ${library}/lib/pkgconfig/butterfly.pc @ONLY)

# The archives of all modules as one: programs need not know their order.
set(script "CREATE ${library}/lib/libbutterfly.a\n")
set(archives "")
foreach(module ${library_modules})
  string(APPEND script "ADDLIB $<TARGET_FILE:butterfly_${module}>\n")
  list(APPEND archives butterfly_${module})
endforeach()
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/library.mri CONTENT "${script}SAVE\nEND\n")
file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/butterfly/*.h)
add_custom_command(OUTPUT ${library}/lib/libbutterfly.a VERBATIM
  DEPENDS ${archives} ${headers} ${CMAKE_BINARY_DIR}/library.mri
  COMMAND ${CMAKE_COMMAND} -E make_directory ${library}/include/butterfly
  COMMAND ${CMAKE_COMMAND} -E copy ${headers} ${library}/include/butterfly
  COMMAND ${CMAKE_AR} -M < ${CMAKE_BINARY_DIR}/library.mri
  COMMENT "Making libbutterfly.a")
add_custom_target(butterfly_library DEPENDS ${library}/lib/libbutterfly.a)
install(CODE "
  if(EXISTS \"${library}/lib/libbutterfly.a\")
    file(INSTALL \"${library}/\" DESTINATION \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
  else()
    message(STATUS \"Without the library, which was not made: cmake --build build/release --target butterfly_library\")
  endif()" COMPONENT library)
