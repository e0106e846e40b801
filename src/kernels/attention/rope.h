// Rotary position embedding: pairs of a head's values are rotated by angles that grow with the position.
//
// The angles are a function of the position alone, computed in double by math.h, so that every machine and
// every split of a batch gets the same bits. Formulas follow llama.cpp's, so that its GGUF files mean the
// same here.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace butterfly::kernels {

// How a model trained on short contexts is stretched to longer ones.
enum class RopeScaling {
  kNone,
  kLinear,  // positions divided by `factor`
  kNtk,     // base * factor^(d / (d - 2)): slow pairs are stretched, fast ones hardly
  kYarn,    // linear for slow pairs, none for fast ones, a ramp between (Peng et al., 2023), and a magnitude
  kLlama3,  // as Llama 3.1: by wavelength, with a smooth middle
};
// "none", "linear", "ntk", "yarn", "llama3"; throws Error kInvalidArgument for others.
RopeScaling rope_scaling_by_name(std::string_view name);

// Which values form a pair.
enum class RopeLayout {
  kInterleaved,  // (0, 1), (2, 3), ...: "norm", llama in GGUF
  kHalfSplit,    // (0, n/2), (1, n/2 + 1), ...: "neox"
};

// How a model rotates: the frequencies of the pairs follow from it.
struct RopeParams {
  size_t head_dim = 0;
  size_t rotated = 0;  // leading values of a head that rotate, even; 0: all
  double base = 10000;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;            // new context / old context; llama.cpp's 1 / freq_scale
  double original_context = 0;  // needed by yarn and llama3
  // Magnitude of the rotated values. YaRN multiplies it by 1 + 0.1 ln(factor) unless ext_factor is 0.
  double attn_factor = 1;
  double ext_factor = 1;        // yarn: weight of the ramp; 0 leaves plain interpolation
  double beta_fast = 32;        // yarn: pairs that rotate more often than this in the original context stay
  double beta_slow = 1;         // yarn: pairs that rotate less often are interpolated fully
  double low_freq_factor = 1;   // llama3
  double high_freq_factor = 4;  // llama3
  // Magnitude times 1 + growth * ln(1 + floor(position / original_context)): Mistral 3's queries. 0: none.
  double growth = 0;
  // One divisor per pair, as GGUF's rope_freqs.weight; empty: none, or llama3's computed ones.
  std::vector<float> freq_factors = {};
};

// The angles of one model, as cosines and sines of any position. Immutable, so any number of threads may
// share it.
class Rope {
 public:
  // Throws Error kInvalidArgument, naming the parameter that makes no sense.
  explicit Rope(const RopeParams& params);

  size_t head_dim() const { return head_dim_; }
  size_t pairs() const { return frequencies_.size(); }
  size_t rotation_floats() const { return 2 * pairs(); }
  // Radians per position of each pair, and the factor on every cosine and sine.
  const std::vector<double>& frequencies() const { return frequencies_; }
  double magnitude() const { return magnitude_; }

  // rotations[2][pairs]: cosines, then sines, of this position's angles.
  void rotations(int64_t position, float* rotations) const;

 private:
  size_t head_dim_;
  double magnitude_;
  double growth_, growth_length_;
  std::vector<double> frequencies_;
};

// Rotates `heads` heads of `head_dim` values at `x`, in place; values from 2 * pairs on stay. No alignment
// needed.
void rope(RopeLayout layout, const float* rotations, size_t pairs, float* x, size_t heads, size_t head_dim);

// The plain loops, one head (ref/rope.cc).
namespace ref {
void rope_interleaved(const float* rotations, size_t pairs, float* head);
void rope_half_split(const float* rotations, size_t pairs, float* head);
}  // namespace ref

}  // namespace butterfly::kernels
