// Values of Hugging Face tensors in GGUF's order: views where the bytes are right, recipes where they are
// not.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "model/formats/hf_architecture.h"
#include "model/formats/safetensors.h"

namespace butterfly::model {

// One tensor of one shard. Keeps the shard's mapping alive.
struct HfSource {
  std::shared_ptr<const SafetensorsFile> file;
  SafetensorsTensor info;
};

// `heads` only for the rope pairs. Throws Error kCorrupt when the shape does not allow what is asked.
NamedTensor hf_tensor(std::string name, const HfSource& source, HfValues values, uint32_t heads);

// [experts, ...]; all must have one type and shape.
NamedTensor hf_stack(std::string name, std::vector<HfSource> experts);

}  // namespace butterfly::model
