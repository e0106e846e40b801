// Root-mean-square normalisation with a learned weight per column.
#pragma once
#include "nn/builder.h"

namespace butterfly::nn {

struct RmsNorm {
  Parameter weight;  // [cols]
  float eps = 1e-5f;

  ValueId build(Builder& b, ValueId x) const {
    return graph::rms_norm(b.graph(), x, weight, eps, weight.name);
  }
};

}  // namespace butterfly::nn
