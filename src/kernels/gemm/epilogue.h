// What happens to a finished sum before it is stored: bias, then an activation. Shared by gemm and conv2d.
#pragma once
#include <cstddef>

namespace butterfly::kernels {

enum class FusedActivation { kNone, kRelu, kGelu };  // as relu() and gelu() (tanh form) of activation.h

// value = sum + bias[column]; before = value; out = activation(value).
struct Epilogue {
  const float* bias = nullptr;  // one value per column, or null
  FusedActivation activation = FusedActivation::kNone;
  // Receives the values before the activation, laid out as the result; what gelu's gradient needs. Or null.
  float* before = nullptr;
};

}  // namespace butterfly::kernels
