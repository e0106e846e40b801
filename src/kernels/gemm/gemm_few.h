// Products with few rows: bound by reading B, so B is read once and never packed.
#pragma once
#include "kernels/gemm/gemm.h"

namespace butterfly::kernels {

// Rows that are few; for a transposed B, which is transposed in registers, fewer.
inline constexpr size_t kFewRows = 8, kFewRowsTransposed = 4;
inline bool few_rows(const Gemm& job) { return job.m <= (job.b.transposed ? kFewRowsTransposed : kFewRows); }

// As gemm(), for few_rows(job). A null pool: in the calling thread.
void gemm_few_rows(const Gemm& job, ThreadPool* pool);

}  // namespace butterfly::kernels
