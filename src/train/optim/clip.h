// Bounds on gradients.
#pragma once
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "train/optim/parameter_layout.h"

namespace butterfly::train {

// Squares of the blocks of a shard; `gradients` points to the first float of the shard.
std::vector<float> block_squares(const ParameterLayout& layout, const Shard& shard, const float* gradients,
                                 ThreadPool& pool);
// The norm of all gradients from the squares of all blocks: each parameter's added in double, in order, then
// those of the parameters. Statistics do not count.
double gradient_norm(const ParameterLayout& layout, std::span<const float> squares);
// What a gradient is multiplied with so that the norm is at most `norm_max` (0: no bound).
float clip_scale(double norm, double norm_max);

}  // namespace butterfly::train
