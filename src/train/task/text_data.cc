#include "train/task/text_data.h"

#include <span>
#include <type_traits>
#include <variant>

#include "base/sha256.h"
#include "train/data/text_file.h"

namespace butterfly::train {
namespace {

// As bytes that differ where values do.
std::string bytes_of(const model::MetaValue& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return held;
        } else if constexpr (std::is_same_v<T, model::MetaArray>) {
          return std::visit(
              [](const auto& items) -> std::string {
                using Item = typename std::decay_t<decltype(items)>::value_type;
                std::string bytes;
                if constexpr (std::is_same_v<Item, std::string>) {
                  for (const std::string& item : items) bytes += std::to_string(item.size()) + ":" + item;
                } else if constexpr (std::is_arithmetic_v<Item>) {
                  const auto raw = std::as_bytes(std::span(items));
                  bytes.assign(reinterpret_cast<const char*>(raw.data()), raw.size());
                }
                return bytes;
              },
              held.elements);
        } else {
          return {reinterpret_cast<const char*>(&held), sizeof held};
        }
      },
      value);
}

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

DocumentOptions document_options(const TrainConfig& config, const TextTools& tools) {
  // The template has a say of its own.
  std::string vocabulary;
  for (const auto& entry : tools.vocabulary.metadata().entries())
    if (entry.key.starts_with("tokenizer.") && entry.key != "tokenizer.chat_template")
      vocabulary += entry.key + " " + bytes_of(entry.value) + "\n";
  return {.train_on_inputs = config.train_on_inputs,
          .packed = config.sample_packing,
          .skip_bad = config.skip_bad,
          .cache = config.dataset_prepared_path.empty() ? fs::path(config.output_dir) / "tokens"
                                                        : fs::path(config.dataset_prepared_path),
          .vocabulary = sha256_hex(vocabulary)};
}

}  // namespace butterfly::train
