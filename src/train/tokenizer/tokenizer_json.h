// A learnt vocabulary as Hugging Face's library reads it: tokenizer.json, and the tokenizer_config.json
// beside it.
#pragma once
#include <string>

#include "train/tokenizer/tokenizer_trainer.h"

namespace butterfly::train {

// Words are cut by the expressions that were published with the pre-tokenizer's models; they can differ from
// those of a GGUF file at letters beyond ASCII (model/tokenizer/pre_tokenizer_table.cc). Throws Error
// kInvalidArgument for a role that is no special token, kUnsupported for a pre-tokenizer without expressions.
std::string tokenizer_json(const BpeVocabulary& vocabulary, const SpecialRoles& roles);
// Names bos, eos and padding, which tokenizer.json cannot.
std::string tokenizer_config_json(const SpecialRoles& roles);

}  // namespace butterfly::train
