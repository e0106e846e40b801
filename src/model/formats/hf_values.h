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

// Numbers of heads that values are put in order by, as far as a rule needs them.
struct HfHeads {
  uint32_t rope = 0;  // heads of pairs
  // Of linear attention: key heads (of Mamba-2: groups), value heads, columns of one. Of a latent: rows of a
  // head's keys and values, and heads.
  uint32_t keys = 0, values = 0, dim = 0;
  bool tiled = false;  // GGUF's order of value heads is not Hugging Face's
};

// Throws Error kCorrupt when the shape does not allow what is asked.
NamedTensor hf_tensor(std::string name, const HfSource& source, HfValues values, const HfHeads& heads = {});

// [experts, ...]; all must have one type and shape.
NamedTensor hf_stack(std::string name, std::vector<HfSource> experts);

}  // namespace butterfly::model
