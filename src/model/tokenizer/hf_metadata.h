// Writes a collected tokenizer under GGUF's keys.
#pragma once
#include "model/metadata/metadata.h"
#include "model/tokenizer/hf_parts.h"

namespace butterfly::model {

// Pads to <architecture>.vocab_size where metadata has it and it is greater.
void add_hf_metadata(HfTokenizer tokenizer, Metadata& metadata);

}  // namespace butterfly::model
