// The element types that weights have before anything is quantised.
#pragma once
#include "tensor/dtype.h"

namespace butterfly::model {

inline bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

}  // namespace butterfly::model
