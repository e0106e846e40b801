// Hugging Face folders (config.json, safetensors, tokenizer files) as a row of the model format table.
#pragma once
#include <string>

#include "model/formats/model_file.h"

namespace butterfly::model {

// A folder with config.json, that config.json itself, a weight index, or a safetensors file. A shard or
// model.safetensors stands for its folder; any other safetensors file beside a config.json for itself; one
// without config.json opens as a list of tensors under their own names.
std::string hf_why_not(const ModelSource& source);
ModelFile hf_open(const ModelSource& source, const OpenModelOptions& options);

}  // namespace butterfly::model
