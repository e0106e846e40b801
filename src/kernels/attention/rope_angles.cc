// The angles of rope.h: frequencies of the pairs under each scaling, cosines and sines of a position.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "kernels/attention/rope.h"
#include "kernels/math/math.h"

namespace butterfly::kernels {
namespace {

void validate(const RopeParams& p, size_t rotated) {
  if (p.head_dim == 0) fail(Errc::kInvalidArgument, "[rope] head_dim is 0");
  if (rotated == 0 || rotated % 2 != 0 || rotated > p.head_dim)
    fail(Errc::kInvalidArgument, "[rope] {} values rotate in heads of {}; must be even and fit", rotated,
         p.head_dim);
  if (!(p.base > 1) || std::isinf(p.base))
    fail(Errc::kInvalidArgument, "[rope] base {} must be above 1", p.base);
  if (!(p.factor > 0) || std::isinf(p.factor))
    fail(Errc::kInvalidArgument, "[rope] scaling factor {} must be positive", p.factor);
  if (!std::isfinite(p.growth)) fail(Errc::kInvalidArgument, "[rope] growth {} must be a number", p.growth);
  if (p.scaling == RopeScaling::kNtk && rotated <= 2)
    fail(Errc::kInvalidArgument, "[rope] ntk scaling needs more than 2 rotated values");
  const bool by_context = p.growth != 0 || p.scaling == RopeScaling::kYarn ||
                          (p.scaling == RopeScaling::kLlama3 && p.freq_factors.empty());
  if (by_context && !(p.original_context > 0))
    fail(Errc::kInvalidArgument, "[rope] this scaling needs the original context length, found {}",
         p.original_context);
  if (p.scaling == RopeScaling::kYarn && !(p.beta_fast > 0 && p.beta_slow > 0))
    fail(Errc::kInvalidArgument, "[rope] yarn beta_fast {} and beta_slow {} must be positive", p.beta_fast,
         p.beta_slow);
  if (p.scaling == RopeScaling::kLlama3 && p.freq_factors.empty() &&
      !(p.low_freq_factor > 0 && p.high_freq_factor > p.low_freq_factor))
    fail(Errc::kInvalidArgument,
         "[rope] llama3 low_freq_factor {} must be positive and below high_freq_factor {}", p.low_freq_factor,
         p.high_freq_factor);
  if (!p.freq_factors.empty() && p.freq_factors.size() != rotated / 2)
    fail(Errc::kInvalidArgument, "[rope] {} frequency factors for {} pairs", p.freq_factors.size(),
         rotated / 2);
  for (float f : p.freq_factors)
    if (!(f > 0) || std::isinf(f))
      fail(Errc::kInvalidArgument, "[rope] frequency factor {} must be positive", f);
}

// YaRN's ramp over pairs: 1 where a pair keeps its frequency, 0 where it is interpolated.
class YarnRamp {
 public:
  YarnRamp(const RopeParams& p, size_t rotated) {
    // The pair that makes `rotations` rotations within the original context.
    const auto pair_of = [&](double rotations) {
      return static_cast<double>(rotated) * log_f64(p.original_context / (rotations * 2 * std::numbers::pi)) /
             (2 * log_f64(p.base));
    };
    low_ = std::max(0.0, std::floor(pair_of(p.beta_fast)));
    high_ = std::min(static_cast<double>(rotated - 1), std::ceil(pair_of(p.beta_slow)));
  }
  double at(size_t pair) const {
    const double y = (static_cast<double>(pair) - low_) / std::max(0.001, high_ - low_);
    return 1 - std::clamp(y, 0.0, 1.0);
  }

 private:
  double low_, high_;
};

// Llama 3.1: short waves stay, long ones are divided by `factor`, those between change smoothly.
double llama3_divisor(const RopeParams& p, double frequency) {
  const double rotations = p.original_context * frequency / (2 * std::numbers::pi);
  if (rotations > p.high_freq_factor) return 1;
  if (rotations < p.low_freq_factor) return p.factor;
  const double smooth = (rotations - p.low_freq_factor) / (p.high_freq_factor - p.low_freq_factor);
  return 1 / ((1 - smooth) / p.factor + smooth);
}

}  // namespace

RopeScaling rope_scaling_by_name(std::string_view name) {
  static constexpr struct {
    std::string_view name;
    RopeScaling scaling;
  } kNames[] = {{"none", RopeScaling::kNone},
                {"linear", RopeScaling::kLinear},
                {"ntk", RopeScaling::kNtk},
                {"yarn", RopeScaling::kYarn},
                {"llama3", RopeScaling::kLlama3}};
  for (const auto& row : kNames)
    if (row.name == name) return row.scaling;
  fail(Errc::kInvalidArgument, "rope scaling {}: expected none, linear, ntk, yarn or llama3", name);
}

Rope::Rope(const RopeParams& p)
    : head_dim_(p.head_dim),
      magnitude_(p.attn_factor),
      growth_(p.growth),
      growth_length_(p.original_context) {
  const size_t rotated = p.rotated == 0 ? p.head_dim : p.rotated;
  validate(p, rotated);
  const auto dims = static_cast<double>(rotated);
  const double base = p.scaling == RopeScaling::kNtk ? p.base * pow_f64(p.factor, dims / (dims - 2)) : p.base;
  const bool yarn = p.scaling == RopeScaling::kYarn && p.ext_factor != 0;
  if (yarn) magnitude_ *= 1 + 0.1 * log_f64(p.factor);

  frequencies_.resize(rotated / 2);
  for (size_t i = 0; i < frequencies_.size(); ++i) {
    double frequency = pow_f64(base, -2 * static_cast<double>(i) / dims);
    if (!p.freq_factors.empty()) {
      frequency /= static_cast<double>(p.freq_factors[i]);
    } else if (p.scaling == RopeScaling::kLlama3) {
      frequency /= llama3_divisor(p, frequency);
    }
    if (p.scaling == RopeScaling::kLinear || p.scaling == RopeScaling::kYarn) {
      const double mix = yarn ? YarnRamp(p, rotated).at(i) * p.ext_factor : 0;
      frequency = frequency / p.factor * (1 - mix) + frequency * mix;
    }
    frequencies_[i] = frequency;
  }
}

void Rope::rotations(int64_t position, float* rotations) const {
  const auto at = static_cast<double>(position);
  double magnitude = magnitude_;
  if (growth_ != 0) magnitude *= 1 + growth_ * log_f64(1 + std::floor(at / growth_length_));
  for (size_t i = 0; i < pairs(); ++i) {
    double sine = 0, cosine = 0;
    sincos_f64(at * frequencies_[i], &sine, &cosine);
    rotations[i] = static_cast<float>(cosine * magnitude);
    rotations[pairs() + i] = static_cast<float>(sine * magnitude);
  }
}

}  // namespace butterfly::kernels
