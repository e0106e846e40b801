// Matrix tiles (AMX-INT8) of newer Xeons: products of byte matrices, 16 x 16 results at a time.
//
// Integer sums are exact, so tiles give the bits of every other target; they only get there faster. Used
// above AVX3_DL, for batches of rows (docs/decisions/0005-amx.md).
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/tiles/matmul_job.h"
#include "tensor/dtype.h"

namespace butterfly::kernels::amx {

// Whether a product of `m` rows with weights of this type is faster with tiles.
bool takes(DType dtype, size_t m);

// The job of PackFormat::matmul, for types and rows that takes() names.
void matmul(DType dtype, const MatmulJob& job);

// Runs `rounds` rounds of products in registers; returns the operations done (2 per product).
uint64_t run_int8(uint64_t rounds);

}  // namespace butterfly::kernels::amx
