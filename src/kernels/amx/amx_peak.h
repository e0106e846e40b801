// The compute peak of matrix tiles (AMX-INT8): products with no memory traffic.
#pragma once
#include <cstdint>

namespace butterfly::kernels::amx {

// Runs `rounds` rounds of products in registers; returns the operations done (2 per product). Only where
// has_int8_tiles().
uint64_t run_int8(uint64_t rounds);

}  // namespace butterfly::kernels::amx
