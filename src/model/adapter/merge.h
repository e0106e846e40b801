// A model with adapters added into its matrices.
#pragma once
#include <span>

#include "base/thread_pool.h"
#include "model/adapter/adapter.h"

namespace butterfly::model {

// The base with W + scale * B A in the place of every matrix that an adapter changes, as F32, made when it is
// asked for and one at a time; the rest is the file's. Shares the adapters; borrows the pool, which must
// outlive the result. Throws Error kInvalidArgument naming both shapes where they do not fit, kUnsupported
// for a matrix that the file does not have of its own.
ModelFile merged_model(const ModelFile& base, std::vector<Adapter> adapters, ThreadPool& pool);

}  // namespace butterfly::model
