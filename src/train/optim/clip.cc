#include "train/optim/clip.h"

#include <cmath>

#include "kernels/optim/optimizer_update.h"

namespace butterfly::train {

double gradient_norm(const ParameterLayout& layout, const float* gradients, ThreadPool& pool) {
  double squares = 0;
  for (size_t i = 0; i < layout.size(); ++i)
    if (!layout.parameter(i).statistic)
      squares += kernels::sum_squares_blocks(gradients + layout.offset(i), layout.count(i), pool);
  return std::sqrt(squares);
}

float clip_scale(double norm, double norm_max) {
  if (norm_max <= 0 || !(norm > norm_max)) return 1;
  return static_cast<float>(norm_max / norm);
}

}  // namespace butterfly::train
