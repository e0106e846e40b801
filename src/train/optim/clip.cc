#include "train/optim/clip.h"

#include <cmath>

#include "base/check.h"
#include "kernels/optim/optimizer_update.h"

namespace butterfly::train {

std::vector<float> block_squares(const ParameterLayout& layout, const Shard& shard, const float* gradients,
                                 ThreadPool& pool) {
  std::vector<float> squares(shard.end - shard.begin);
  float* at = squares.data();
  for (const NormBlock& run : layout.runs(shard)) {
    kernels::sum_squares_blocks(gradients + (run.offset - layout.shard_offset(shard)), run.count, at, pool);
    at += (run.count + kernels::kNormBlock - 1) / kernels::kNormBlock;
  }
  return squares;
}

double gradient_norm(const ParameterLayout& layout, std::span<const float> squares) {
  BF_CHECK(squares.size() == layout.blocks().size()) << squares.size() << " sums";
  double total = 0, of_parameter = 0;
  for (size_t i = 0; i < squares.size(); ++i) {
    const NormBlock& block = layout.blocks()[i];
    if (block.first == 0) of_parameter = 0;
    of_parameter += static_cast<double>(squares[i]);
    const bool last = block.first + block.count == layout.count(block.parameter);
    if (last && !layout.parameter(block.parameter).statistic) total += of_parameter;
  }
  return std::sqrt(total);
}

float clip_scale(double norm, double norm_max) {
  if (norm_max <= 0 || !(norm > norm_max)) return 1;
  return static_cast<float>(norm_max / norm);
}

}  // namespace butterfly::train
