// The plain form of Epilogue: one value.
#pragma once
#include "kernels/gemm/epilogue.h"
#include "kernels/math/math.h"

namespace butterfly::kernels::ref {

// The finished sum of column `column` goes to out[at].
inline void finish(const Epilogue& epilogue, float sum, size_t column, size_t at, float* out) {
  const float value = epilogue.bias == nullptr ? sum : sum + epilogue.bias[column];
  if (epilogue.before != nullptr) epilogue.before[at] = value;
  if (epilogue.activation == FusedActivation::kRelu) {
    out[at] = value < 0.0f ? 0.0f : value;
  } else {
    out[at] = epilogue.activation == FusedActivation::kGelu ? gelu_f32(value) : value;
  }
}

}  // namespace butterfly::kernels::ref
