#include "kernels/optim/adam_bf16.h"

#include <bit>
#include <cmath>

#include "kernels/optim/optimizer_factors.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels::ref {
namespace {

// Up with a probability of what truncation would lose.
uint16_t at_random(float value, uint32_t bits16) {
  return static_cast<uint16_t>((std::bit_cast<uint32_t>(value) + bits16) >> 16);
}

}  // namespace

void adam_update_bf16(const AdamStep& step, const float* grad, float* param, uint16_t* m, uint16_t* v,
                      size_t begin, size_t end, uint32_t key, size_t first) {
  const AdamFactors f(step);
  for (size_t i = begin; i < end; ++i) {
    const float g = std::fma(f.decay, param[i], grad[i] * f.grad_scale);
    const float m_old = bf16_to_f32(m[i]), v_old = bf16_to_f32(v[i]);
    const float m_new = std::fma(f.keep_m, g - m_old, m_old);
    const float v_new = std::fma(f.keep_v, std::fma(g, g, -v_old), v_old);
    const float denominator = std::fma(std::sqrt(v_new), f.root, f.eps);
    param[i] = std::fma(-f.rate, m_new / denominator, param[i] * f.shrink);
    const uint32_t bits = mix_bits(static_cast<uint32_t>(first + i), key);
    m[i] = at_random(m_new, bits & 0xffffu);
    v[i] = at_random(v_new, bits >> 16);
  }
}

}  // namespace butterfly::kernels::ref
