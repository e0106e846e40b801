#include "train/task/text_data.h"

#include "train/data/text_file.h"

namespace butterfly::train {
namespace {

namespace fs = std::filesystem;

// What the config names, or what the tokenizer's file has; empty for neither.
std::string template_text(const TrainConfig& config, const model::Metadata& metadata) {
  const std::string& text = config.chat_template;
  std::error_code error;  // Jinja text may be longer than a path can be
  if (!text.empty()) return fs::exists(text, error) ? read_text(text) : text;
  return metadata.string_or("tokenizer.chat_template", "");
}

}  // namespace

TextTools::TextTools(const TrainConfig& config)
    : vocabulary(model::open_model(config.tokenizer.empty() ? config.base_model : config.tokenizer)),
      tokenizer(model::make_tokenizer(vocabulary.metadata())),
      chat(std::make_unique<model::ChatPrompter>(*tokenizer, template_text(config, vocabulary.metadata()))) {
  chat->check_template();
}

DocumentOptions document_options(const TrainConfig& config) {
  return {.train_on_inputs = config.train_on_inputs,
          .packed = config.sample_packing,
          .skip_bad = config.skip_bad};
}

}  // namespace butterfly::train
