// Products with quantised weights that have no packed layout.
#pragma once
#include "kernels/tiles/matmul_job.h"
#include "tensor/dtype.h"

namespace butterfly::kernels {

// Panels are 16 rows in file layout.
void matmul_blocks(DType dtype, const MatmulJob& job);

}  // namespace butterfly::kernels
