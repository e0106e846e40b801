// Whole small models on seeded weights and tokens, as fingerprints of their logits, or of a step of an
// adapter beside them, that must be equal on all machines.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "tensor/dtype.h"

namespace butterfly::runtime {

struct ModelDigestRow {
  const char* architecture;
  DType weights;
  DType cache;
  bool learns = false;       // an adapter's loss and gradients, instead of logits
  std::string name() const;  // "llama Q4_0, F16 cache"
};
std::span<const ModelDigestRow> model_digest_table();

// Makes the model in a temporary file, then runs a prompt and single tokens, or computes a training step,
// under the current target.
uint64_t model_digest(const ModelDigestRow& row);

}  // namespace butterfly::runtime
