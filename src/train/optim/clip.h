// Bounds on gradients.
#pragma once
#include "base/thread_pool.h"
#include "train/optim/parameter_layout.h"

namespace butterfly::train {

// The norm of all gradients in a flat array: squares of fixed blocks, added in double in order.
double gradient_norm(const ParameterLayout& layout, const float* gradients, ThreadPool& pool);
// What a gradient is multiplied with so that the norm is at most `norm_max` (0: no bound).
float clip_scale(double norm, double norm_max);

}  // namespace butterfly::train
