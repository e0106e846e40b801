// What turns a config's texts into tokens.
#pragma once
#include <memory>
#include <string>

#include "model/chat_template/chat_prompt.h"
#include "model/formats/model_file.h"
#include "model/tokenizer/tokenizer.h"
#include "train/data/documents.h"
#include "train/task/config.h"

namespace butterfly::train {

// Tokenizer and template as the config names them. Immutable: any thread may use it.
struct TextTools {
  // Throws Error naming the file, and the template's own words where it cannot be read.
  explicit TextTools(const TrainConfig& config);

  model::ModelFile vocabulary;  // the file with the tokenizer
  std::unique_ptr<const model::Tokenizer> tokenizer;
  std::unique_ptr<const model::ChatPrompter> chat;
};

DocumentOptions document_options(const TrainConfig& config, const TextTools& tools);

}  // namespace butterfly::train
