// The time of day, which certificates and tokens are dated with. Passed as an argument, so that tests choose
// it.
#pragma once
#include <chrono>

namespace butterfly::cluster {

using WallTime = std::chrono::sys_seconds;

inline WallTime wall_now() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

}  // namespace butterfly::cluster
