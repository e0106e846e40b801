// What the kernels themselves reach on this machine, for one type of weights: the efficiency of a node.
#pragma once
#include <chrono>

#include "base/thread_pool.h"
#include "cluster/node/node_spec.h"
#include "tensor/dtype.h"

namespace butterfly::cluster {

struct KernelRates {
  double weight_bytes_per_s = 0;  // one row: weights streamed from memory, as in generation
  double operations_per_s = 0;    // 256 rows, 2 per product, as in prompts
};

struct KernelMeasureOptions {
  uint64_t bytes = 0;                   // of weights read in turn; 0: several times the last cache
  std::chrono::milliseconds time{300};  // of each of the two figures
};

// Times real products on all threads of the pool, the first over more bytes than the caches hold. Takes a
// second or two. Throws Error kOutOfMemory, and kUnsupported for a type no product exists for.
//
// Rates are of the time in which the threads run: what a quota takes away is not in them (cpu_share.h).
KernelRates measure_kernels(ThreadPool& pool, DType type, const KernelMeasureOptions& options = {});

// Sets the node's efficiencies so that its rates become the measured ones.
void calibrate(NodeSpec& node, const KernelRates& rates, DType type);

}  // namespace butterfly::cluster
