# How every file is compiled. One result on every machine comes first: no contraction, no fast-math.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

set(BUTTERFLY_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize=<this>")
option(BUTTERFLY_TESTS "Build the tests" ON)
option(BUTTERFLY_SLOW_TESTS "Build the tests labelled slow, too" ON)
option(BUTTERFLY_BENCHES "Build the benchmarks" ON)
option(BUTTERFLY_UNITY "Compile several small files at once: fast from clean, slow for one changed file" OFF)
option(BUTTERFLY_EMULATE_TILES "Target AMX by plain loops, for its tests on machines without it" OFF)
option(BUTTERFLY_FUZZ "Build the libFuzzer targets (needs clang)" OFF)

find_program(CCACHE ccache)
if(CCACHE)
  # Depend mode: what is not in the cache is not preprocessed first to look it up, 6 % of a first build.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_DEPEND=1 ${CCACHE})
endif()

add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wimplicit-fallthrough
                    -ffp-contract=off -fno-math-errno -fno-fast-math)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")

# GCC collects its garbage when the heap has grown by a half; where memory is plenty, later is faster (6 to 19 % of a
# large file).
cmake_host_system_information(RESULT host_megabytes QUERY TOTAL_PHYSICAL_MEMORY)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND host_megabytes GREATER 7000)
  add_compile_options(--param=ggc-min-expand=400 --param=ggc-min-heapsize=600000)
endif()

# What a program that reads files and requests of strangers should have; sanitizers bring checks of their own.
if(NOT BUTTERFLY_SANITIZE)
  add_compile_options($<$<CONFIG:Release>:-D_FORTIFY_SOURCE=2> -fstack-protector-strong -fPIE)
  add_link_options(-pie -Wl,-z,relro -Wl,-z,now)
endif()

if(BUTTERFLY_SANITIZE)
  add_compile_options(-fsanitize=${BUTTERFLY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${BUTTERFLY_SANITIZE})
endif()
if(BUTTERFLY_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
