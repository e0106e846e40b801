// An adapter that has learned nothing yet: B is zero, so the model answers as it did.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "model/adapter/adapter.h"

namespace butterfly::model {

struct FreshAdapterOptions {
  size_t rank = 16;
  float alpha = 32;
  bool by_root = false;              // rsLoRA
  std::vector<std::string> modules;  // adapter_targets()
  std::set<std::string> takes;       // the same
  uint64_t seed = 1;
};

// A is uniform within 1 / sqrt(columns), as PEFT begins, and a function of (seed, tensor name, index). Throws
// Error as adapter_targets() does, and kInvalidArgument for a rank that no matrix has.
Adapter fresh_adapter(const ModelFile& base, const FreshAdapterOptions& options);

}  // namespace butterfly::model
