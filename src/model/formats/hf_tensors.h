// Hugging Face's tensors under GGUF's names, their values in GGUF's order.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "model/formats/hf_architecture.h"
#include "model/formats/safetensors.h"

namespace butterfly::model {

// Tensors of all shards, in GGUF's usual order. Values that lie in the files as GGUF would have them are
// views; the others (see HfValues) are put together when they are asked for. Throws Error that names file and
// tensor: kUnsupported for a name the architecture has no rule for, kCorrupt for shapes that do not fit
// `metadata` or names found twice.
//
// `tied`: the output matrix is the embedding; whichever of the two a file holds becomes token_embd.weight.
std::vector<NamedTensor> map_hf_tensors(const HfArchitecture& architecture, const Metadata& metadata,
                                        bool tied,
                                        std::span<const std::shared_ptr<const SafetensorsFile>> shards);

}  // namespace butterfly::model
