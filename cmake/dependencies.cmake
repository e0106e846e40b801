# Libraries from Debian, by their own CMake names. scripts/deps.sh installs the packages.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(hwy REQUIRED)
find_package(OpenSSL 3 REQUIRED)  # SHA-256 of checkpoints and keys, HTTPS
find_package(PNG REQUIRED)   # training data: images
find_package(JPEG REQUIRED)
find_package(ZLIB REQUIRED)  # IDX files are usually gzipped
find_package(yaml-cpp REQUIRED)  # training files
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)      # tokenizers: cutting texts into words
pkg_check_modules(TOMLPLUSPLUS REQUIRED IMPORTED_TARGET tomlplusplus)  # cluster and workload files
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)  # nodes: cores, caches, NUMA
pkg_check_modules(LZ4 REQUIRED IMPORTED_TARGET liblz4)  # training over links: gradients and weights, where that pays
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)  # tokenizers: normal forms, classes of characters

# Links between ranks of an MPI job, where its development files are installed ('./scripts/deps.sh mpi').
pkg_check_modules(OMPI QUIET IMPORTED_TARGET ompi-c)
set(BUTTERFLY_MPI AUTO CACHE STRING "Rows between nodes over Open MPI, under mpirun and srun: ON, OFF or AUTO (where it is installed)")
if(BUTTERFLY_MPI STREQUAL "AUTO")
  set(BUTTERFLY_WITH_MPI ${OMPI_FOUND})
else()
  set(BUTTERFLY_WITH_MPI ${BUTTERFLY_MPI})
endif()
if(BUTTERFLY_WITH_MPI AND NOT OMPI_FOUND)
  message(FATAL_ERROR "BUTTERFLY_MPI is ON and Open MPI is not here: ./scripts/deps.sh mpi")
endif()

pkg_check_modules(LIBEDIT IMPORTED_TARGET libedit)  # conversations at a terminal

# HTTP: Boost.Beast and Asio (headers only).
find_package(Boost 1.81 REQUIRED)
add_library(butterfly_asio INTERFACE)
target_link_libraries(butterfly_asio INTERFACE Boost::headers OpenSSL::SSL OpenSSL::Crypto Threads::Threads)
target_compile_definitions(butterfly_asio INTERFACE BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_DISABLE_VISIBILITY)
add_library(butterfly::asio ALIAS butterfly_asio)

# SSSE3 and AVX3 without VNNI run the next lower target: four passes instead of six over every SIMD file.
# HWY_WANT_AVX3_DL makes dispatch look for VNNI machines (Ice Lake, Zen 4 and later).
add_library(butterfly_hwy INTERFACE)
target_link_libraries(butterfly_hwy INTERFACE hwy::hwy)
set(disabled_targets HWY_SSSE3|HWY_AVX3|HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)
if(BUTTERFLY_FUZZ)
  string(APPEND disabled_targets |HWY_AVX2|HWY_AVX3_DL)  # fuzzers look at readers of files, not at instruction sets
endif()
target_compile_definitions(butterfly_hwy INTERFACE HWY_WANT_AVX3_DL=1 HWY_BROKEN_EMU128=1
  "HWY_DISABLED_TARGETS=(${disabled_targets})")
add_library(butterfly::hwy ALIAS butterfly_hwy)

if(BUTTERFLY_TESTS)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()
if(BUTTERFLY_BENCHES)
  find_package(benchmark REQUIRED)
endif()
