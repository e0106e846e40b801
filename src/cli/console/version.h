// What this binary is: shown by --version, and written into reports so that a figure can be traced to a
// build.
#pragma once
#include <string>

namespace butterfly::cli {

struct BuildInfo {
  std::string version;     // "0.1.0"
  std::string revision;    // git, "26694cf"; "unknown" when built outside a clone
  std::string build_type;  // "Release"
  std::string compiler;    // "g++ 12.2.0"
  std::string target;      // instruction set the kernels use on this machine, "AVX2"
  int numerics_id;         // version of the numerics rules; equal ids give equal bits
};

BuildInfo build_info();

// "butterfly 0.1.0 (26694cf, Release, g++ 12.2.0, AVX2)"
std::string version_line();

}  // namespace butterfly::cli
