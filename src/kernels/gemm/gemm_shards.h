// Products that are sums of logical shards.
#pragma once
#include "kernels/gemm/gemm.h"

namespace butterfly::kernels {

// As gemm(), for a job with a shard_unit. A null pool: in the calling thread.
void gemm_shards(const Gemm& job, ThreadPool* pool);

}  // namespace butterfly::kernels
