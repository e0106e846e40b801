// GGUF's llama rotates neighbours, Hugging Face's the halves of a head: rows of B move as those of the matrix
// did.
#pragma once
#include <string>

#include "model/adapter/adapter.h"
#include "model/formats/hf_architecture.h"

namespace butterfly::model {

enum class RopeRows { kToGguf, kFromGguf };

// B of the pair with its rows in the other order; B itself where `values` says that they stay. Throws Error
// kInvalidArgument naming `file` for rows that are no whole heads.
Tensor rope_rows(const std::string& file, const LoraPair& pair, HfValues values, const ModelFile& base,
                 RopeRows to);

}  // namespace butterfly::model
