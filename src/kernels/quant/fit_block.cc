#include "kernels/quant/fit_block.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "kernels/quant/fit.h"

namespace butterfly::kernels {
namespace {

constexpr size_t kBlock = 32;
constexpr size_t kSuperBlock = 256;
constexpr size_t kGroupsMax = 16;

// Keeps the argument with the least error; the first one wins a tie.
template <typename T>
struct Best {
  T value{};
  double error = std::numeric_limits<double>::infinity();
  void offer(const T& candidate, double candidate_error) {
    if (candidate_error < error) value = candidate, error = candidate_error;
  }
};

}  // namespace

void fit_symmetric_block(const float* from, int32_t q_min, IntBlock* to) {
  std::array<double, kBlock> values;
  load_finite(from, values);
  const Fit fit = fit_symmetric(values, q_min);
  const float nearest = nearest_f16_scale(fit.scale);
  // Rounding the scale to f16 moved it off the optimum; a neighbour may be the better one.
  Best<float> d;
  for (const int ulps : {0, -1, 1}) {
    const float candidate = f16_neighbour(nearest, ulps);
    d.offer(candidate, grid_error(values, {candidate, 0}, q_min, -q_min - 1));
  }
  to->d = d.value;
  to->dmin = 0;
  to->scale[0] = 1;
  to->min[0] = 0;
  grid_points(values, {to->d, 0}, q_min, -q_min - 1, to->q);
}

void fit_affine_block(const float* from, int32_t q_max, IntBlock* to) {
  std::array<double, kBlock> values;
  load_finite(from, values);
  const Fit fit = fit_affine(values, q_max, OffsetSign::kAny);
  const float nearest_d = nearest_f16_scale(fit.scale);
  const float nearest_m = nearest_f16_scale(fit.offset);
  Best<Fit> grid;
  for (const int m_ulps : {0, -1, 1}) {
    for (const int d_ulps : {0, -1, 1}) {
      const Fit candidate{f16_neighbour(nearest_d, d_ulps), f16_neighbour(nearest_m, m_ulps)};
      grid.offer(candidate, grid_error(values, candidate, 0, q_max));
    }
  }
  to->d = static_cast<float>(grid.value.scale);
  to->dmin = -static_cast<float>(grid.value.offset);
  to->scale[0] = 1;
  to->min[0] = 1;
  grid_points(values, grid.value, 0, q_max, to->q);
}

void fit_symmetric_super_block(const float* from, int32_t q_min, int32_t scale_min, IntBlock* to) {
  std::array<double, kSuperBlock> values;
  load_finite(from, values);
  const auto group = [&](size_t g) { return std::span<const double>(values).subspan(g * 16, 16); };
  std::array<double, kGroupsMax> wanted;
  double largest = 0;
  for (size_t g = 0; g < kGroupsMax; ++g) {
    wanted[g] = fit_symmetric(group(g), q_min).scale;
    if (std::fabs(wanted[g]) > std::fabs(largest)) largest = wanted[g];
  }
  to->d = covering_f16_scale(largest, scale_min);
  to->dmin = 0;
  const int32_t q_max = -q_min - 1;
  const int32_t scale_max = -scale_min - 1;
  const double d = to->d;
  for (size_t g = 0; g < kGroupsMax; ++g) {
    // The scale was fitted as a real number; of the integers around it the nearest is not always the best.
    const int32_t nearest = d != 0 ? round_clamped(wanted[g] / d, scale_min, scale_max) : 0;
    Best<int32_t> scale;
    for (int32_t s = std::max(nearest - 1, scale_min); s <= std::min(nearest + 1, scale_max); ++s)
      scale.offer(s, grid_error(group(g), {d * s, 0}, q_min, q_max));
    to->scale[g] = static_cast<int16_t>(scale.value);
    to->min[g] = 0;
    grid_points(group(g), {d * scale.value, 0}, q_min, q_max, to->q + g * 16);
  }
}

void fit_affine_super_block(const float* from, const AffineSuperBlock& shape, IntBlock* to) {
  std::array<double, kSuperBlock> values;
  load_finite(from, values);
  const size_t count = kSuperBlock / shape.group_values;
  const auto group = [&](size_t g) {
    return std::span<const double>(values).subspan(g * shape.group_values, shape.group_values);
  };
  std::array<Fit, kGroupsMax> wanted;
  double largest_scale = 0;
  double largest_min = 0;
  for (size_t g = 0; g < count; ++g) {
    wanted[g] = fit_affine(group(g), shape.q_max, OffsetSign::kNotPositive);
    largest_scale = std::max(largest_scale, wanted[g].scale);
    largest_min = std::max(largest_min, -wanted[g].offset);
  }
  to->d = covering_f16_scale(largest_scale, shape.scale_max);
  to->dmin = covering_f16_scale(largest_min, shape.scale_max);
  const double d = to->d;
  const double dmin = to->dmin;
  const int32_t limit = shape.scale_max;
  struct Integers {
    int32_t scale;
    int32_t min;
  };
  for (size_t g = 0; g < count; ++g) {
    const int32_t scale = d != 0 ? round_clamped(wanted[g].scale / d, 0, limit) : 0;
    const int32_t min = dmin != 0 ? round_clamped(-wanted[g].offset / dmin, 0, limit) : 0;
    Best<Integers> best;
    for (int32_t s = std::max(scale - 1, 0); s <= std::min(scale + 1, limit); ++s)
      for (int32_t m = std::max(min - 1, 0); m <= std::min(min + 1, limit); ++m)
        best.offer({s, m}, grid_error(group(g), {d * s, -dmin * m}, 0, shape.q_max));
    to->scale[g] = static_cast<int16_t>(best.value.scale);
    to->min[g] = static_cast<int16_t>(best.value.min);
    grid_points(group(g), {d * best.value.scale, -dmin * best.value.min}, 0, shape.q_max,
                to->q + g * shape.group_values);
  }
}

}  // namespace butterfly::kernels
