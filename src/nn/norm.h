// Normalisation with a learned weight per column: root-mean-square, or mean and variance.
#pragma once
#include "nn/builder.h"

namespace butterfly::nn {

enum class NormKind { kRms, kLayer };

// Empty by default: then it is left out of a block, and must not be built.
struct Norm {
  NormKind kind = NormKind::kRms;
  Parameter weight;  // [cols]; for heads: [head_dim], applied to each head of a row
  Parameter bias;    // [cols], kLayer only, may be empty
  float eps = 1e-5f;
  size_t groups = 1;  // kRms: runs of columns that are normalised alone, with weights of their own

  explicit operator bool() const { return static_cast<bool>(weight); }
  ValueId build(Builder& b, ValueId x) const {
    return kind == NormKind::kRms ? graph::rms_norm(b.graph(), x, weight, eps, weight.name, groups)
                                  : graph::layer_norm(b.graph(), x, weight, bias, eps, weight.name);
  }
};

}  // namespace butterfly::nn
