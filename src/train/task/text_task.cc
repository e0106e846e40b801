// Transformers that learn texts and chats.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/thread_pool.h"
#include "model/formats/convert.h"
#include "model/formats/file_type.h"
#include "train/data/documents.h"
#include "train/data/joined_dataset.h"
#include "train/data/text_file.h"
#include "train/networks/transformer.h"
#include "train/task/task.h"

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

// Everything a model file says of its vocabulary.
void copy_tokenizer(const model::Metadata& from, model::Metadata& to) {
  for (const auto& entry : from.entries())
    if (entry.key.starts_with("tokenizer.")) to.set(entry.key, entry.value);
}

bool learns_chats(const TrainConfig& config) {
  return std::any_of(config.datasets.begin(), config.datasets.end(),
                     [](const std::string& path) { return path.ends_with(".jsonl"); });
}

model::RandomModelOptions sizes_of(const TrainConfig& config, size_t vocabulary) {
  const TrainConfig::Model& m = config.model;
  model::RandomModelOptions sizes;
  sizes.architecture = m.model_type;
  sizes.vocabulary_size = static_cast<uint32_t>(vocabulary);
  sizes.context_length = m.max_position_embeddings;
  sizes.embedding_length = m.hidden_size;
  sizes.block_count = m.num_hidden_layers;
  sizes.feed_forward_length = m.intermediate_size;
  sizes.head_count = m.num_attention_heads;
  sizes.head_count_kv = m.num_key_value_heads == 0 ? m.num_attention_heads : m.num_key_value_heads;
  sizes.rope_freq_base = static_cast<float>(m.rope_theta);
  sizes.tied = m.tie_word_embeddings;
  sizes.seed = config.seed;
  return sizes;
}

fs::path write_model(const Transformer& network, const fs::path& folder, const std::string& type_name) {
  const model::FileType* type = model::file_type_by_name(type_name);
  if (type == nullptr) fail(Errc::kInvalidArgument, "export_type: no type '{}'", type_name);
  // Types of 16 bits, and blocks with such a scale, would write what is too large as infinity.
  if (type->name != "F32" && type->name != "BF16")
    for (const auto& [name, tensor] : network.weights())
      for (const float value : std::span(tensor.data<float>(), static_cast<size_t>(tensor.count())))
        if (!(std::abs(value) <= 65504))
          fail(Errc::kInvalidArgument,
               "{} holds {}, which {} cannot hold; a smaller learning_rate may help, or export_type: F32",
               name, value, type->name);
  const fs::path plain = folder / "model-F32.gguf", path = folder / "model.gguf";
  network.write_gguf(plain);
  ThreadPool pool;
  model::convert_model(model::open_model(plain), path, {.type = type}, pool);
  fs::remove(plain);
  return path;
}

}  // namespace

Task open_text_task(const TrainConfig& config) {
  const std::string& vocabulary_file = config.tokenizer.empty() ? config.base_model : config.tokenizer;
  const model::ModelFile vocabulary = model::open_model(vocabulary_file);
  const auto tokenizer = model::make_tokenizer(vocabulary.metadata());
  const model::ChatPrompter chat(*tokenizer, template_text(config, vocabulary.metadata()));
  chat.check_template();

  const TransformerOptions options{.length = config.sequence_len,
                                   .dropout = static_cast<float>(config.dropout)};
  std::unique_ptr<Transformer> network;
  if (config.base_model.empty()) {
    model::Metadata keys;
    copy_tokenizer(vocabulary.metadata(), keys);
    keys.set("tokenizer.chat_template", chat.source());
    if (!config.model.name.empty()) keys.set("general.name", config.model.name);
    network =
        std::make_unique<Transformer>(untrained_model(sizes_of(config, tokenizer->vocab_size()), keys,
                                                      static_cast<float>(config.model.initializer_range)),
                                      options);
  } else {
    network = std::make_unique<Transformer>(model::open_model(config.base_model), options);
    if (network->config().vocab < tokenizer->vocab_size())
      fail(Errc::kInvalidArgument,
           "{}: has rows for {} tokens, the tokenizer {} has {}; choose one that fits", config.base_model,
           network->config().vocab, vocabulary_file, tokenizer->vocab_size());
    // Whoever talks to the result should ask as it was taught.
    model::Metadata keys;
    if (!config.tokenizer.empty()) copy_tokenizer(vocabulary.metadata(), keys);
    if (!config.chat_template.empty() || learns_chats(config))
      keys.set("tokenizer.chat_template", chat.source());
    network->set_keys(std::move(keys));
  }
  const auto open_all = [&](const std::vector<std::string>& paths) -> std::unique_ptr<Dataset> {
    if (paths.empty()) return nullptr;
    std::vector<std::unique_ptr<Dataset>> parts;
    for (const std::string& path : paths)
      parts.push_back(
          open_dataset(path, config.sequence_len, *tokenizer, chat,
                       {.train_on_inputs = config.train_on_inputs, .packed = config.sample_packing}));
    return joined(std::move(parts));
  };
  Task task;
  task.data = open_all(config.datasets);
  task.test_data = open_all(config.test_datasets);
  task.targets = config.sequence_len;
  task.words = fmt::format("{} tokens in the vocabulary", tokenizer->vocab_size());
  task.unit = "tokens";
  task.write = [learnt = network.get(), type = config.export_type](const fs::path& folder) {
    return write_model(*learnt, folder, type);
  };
  task.write_network = [learnt = network.get()](const fs::path& file) { learnt->write_gguf(file); };
  task.network = std::move(network);
  return task;
}

}  // namespace butterfly::train
