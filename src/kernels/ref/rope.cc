#include <cmath>

#include "kernels/attention/rope.h"

namespace butterfly::kernels::ref {
namespace {

void rotate(float c, float s, float& a, float& b) {
  const float rotated = std::fma(-b, s, a * c);
  b = std::fma(a, s, b * c);
  a = rotated;
}

}  // namespace

void rope_interleaved(const float* rotations, size_t pairs, float* head) {
  for (size_t i = 0; i < pairs; ++i) rotate(rotations[i], rotations[pairs + i], head[2 * i], head[2 * i + 1]);
}
void rope_half_split(const float* rotations, size_t pairs, float* head) {
  for (size_t i = 0; i < pairs; ++i) rotate(rotations[i], rotations[pairs + i], head[i], head[pairs + i]);
}

}  // namespace butterfly::kernels::ref
