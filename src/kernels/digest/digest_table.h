// Every kernel on seeded inputs, as fingerprints that must be equal on all machines. One row per kernel.
#pragma once
#include <span>

#include "kernels/digest/digest.h"

namespace butterfly::kernels {

// A kernel under a name that machines compare.
struct DigestRow {
  const char* name;
  void (*run)(Digest& digest);  // under the current target
};
std::span<const DigestRow> digest_table();

}  // namespace butterfly::kernels
