// The tree that adds 16 parts of a sum over columns of panels (recurrent/panel_sums-inl.h).
#pragma once
#include <cstddef>

namespace butterfly::kernels::ref {

inline float panel_total(const float* parts) {
  float t[16];
  for (size_t i = 0; i < 16; ++i) t[i] = parts[i];
  for (size_t width = 8; width >= 1; width /= 2)
    for (size_t i = 0; i < width; ++i) t[i] += t[i + width];
  return t[0];
}

}  // namespace butterfly::kernels::ref
