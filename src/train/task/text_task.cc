// Transformers that learn texts and chats.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "model/adapter/adapter_write.h"
#include "model/formats/convert.h"
#include "model/formats/file_type.h"
#include "train/data/documents.h"
#include "train/data/joined_dataset.h"
#include "train/networks/greedy_text.h"
#include "train/networks/transformer.h"
#include "train/task/lora.h"
#include "train/task/task.h"
#include "train/task/text_data.h"

namespace butterfly::train {
namespace {

namespace fs = std::filesystem;

// Everything a model file says of its vocabulary.
void copy_tokenizer(const model::Metadata& from, model::Metadata& to) {
  for (const auto& entry : from.entries())
    if (entry.key.starts_with("tokenizer.")) to.set(entry.key, entry.value);
}

bool learns_chats(const TrainConfig& config) {
  return std::any_of(config.datasets.begin(), config.datasets.end(),
                     [](const std::string& path) { return has_lines(path); });
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

void expect_rows(const TrainConfig& config, size_t rows, const std::string& vocabulary_file, size_t tokens) {
  if (rows < tokens)
    fail(Errc::kInvalidArgument, "{}: has rows for {} tokens, the tokenizer {} has {}; choose one that fits",
         config.base_model, rows, vocabulary_file, tokens);
}

// The answer to a question as the adapter gives it now.
std::string sample_text(const LoraTransformer& network, const TextTools& tools, const std::string& question,
                        size_t count, ThreadPool& pool) {
  const model::ChatJson messages = model::ChatJson::array({{{"role", "user"}, {"content", question}}});
  const std::vector<int32_t> prompt =
      tools.chat->prompt({.messages = &messages, .add_generation_prompt = true});
  const auto ends = [&](int32_t id) { return tools.tokenizer->is_end_of_generation(id); };
  return tools.tokenizer->decode(
      greedy_tokens(network.network(), network.config(), prompt, count, ends, pool));
}

// The base stays as it is: an adapter learns.
void learn_adapter(const TrainConfig& config, const std::shared_ptr<const TextTools>& tools,
                   model::PackedWeights* packed, Task& task) {
  const model::ModelFile base = model::open_model(config.base_model);
  auto network = open_lora(config, base, packed);
  expect_rows(config, network->config().vocab, config.base_model, tools->tokenizer->vocab_size());
  const model::Adapter& adapter = network->adapter();
  task.details = fmt::format("adapter  {} matrices of rank {}, times {:g}; the base stays as it is, {}\n",
                             adapter.pairs.size(), adapter.pairs[0].rank(),
                             adapter.scale_of(adapter.pairs[0]), format_bytes(network->frozen_bytes()));
  if (const std::string why_not = model::why_no_peft(adapter, base); !why_not.empty())
    task.details += fmt::format("         no adapter/ for PEFT: {}\n", why_not);
  task.settings["base"] = base_fingerprint(base);
  task.write = [learnt = network.get(), config](const fs::path& folder) {
    return write_adapter(*learnt, config, folder);
  };
  task.write_network = [learnt = network.get()](const fs::path& file) { write_lora_network(*learnt, file); };
  task.sample = [learnt = network.get(), tools](const std::string& question, size_t count, ThreadPool& pool) {
    return sample_text(*learnt, *tools, question, count, pool);
  };
  task.network = std::move(network);
}

// All weights learn, of a fresh model or of the base.
void learn_all(const TrainConfig& config, const TextTools& tools, Task& task) {
  const model::Tokenizer& tokenizer = *tools.tokenizer;
  const model::ModelFile& vocabulary = tools.vocabulary;
  const model::ChatPrompter& chat = *tools.chat;
  const TransformerOptions options{.length = config.sequence_len,
                                   .dropout = static_cast<float>(config.dropout)};
  std::unique_ptr<Transformer> network;
  if (config.base_model.empty()) {
    model::Metadata keys;
    copy_tokenizer(vocabulary.metadata(), keys);
    keys.set("tokenizer.chat_template", chat.source());
    if (!config.model.name.empty()) keys.set("general.name", config.model.name);
    network =
        std::make_unique<Transformer>(untrained_model(sizes_of(config, tokenizer.vocab_size()), keys,
                                                      static_cast<float>(config.model.initializer_range)),
                                      options);
  } else {
    network = std::make_unique<Transformer>(model::open_model(config.base_model), options);
    expect_rows(config, network->config().vocab, vocabulary.path().string(), tokenizer.vocab_size());
    // Whoever talks to the result should ask as it was taught.
    model::Metadata keys;
    if (!config.tokenizer.empty()) copy_tokenizer(vocabulary.metadata(), keys);
    if (!config.chat_template.empty() || learns_chats(config))
      keys.set("tokenizer.chat_template", chat.source());
    network->set_keys(std::move(keys));
  }
  task.write = [learnt = network.get(), type = config.export_type](const fs::path& folder) {
    return write_model(*learnt, folder, type);
  };
  task.write_network = [learnt = network.get()](const fs::path& file) { learnt->write_gguf(file); };
  task.network = std::move(network);
}

}  // namespace

Task open_text_task(const TrainConfig& config, model::PackedWeights* packed) {
  const auto tools = std::make_shared<const TextTools>(config);
  Task task;
  if (!config.adapter.empty()) {
    learn_adapter(config, tools, packed, task);
  } else {
    learn_all(config, *tools, task);
  }
  const auto open_all = [&](const std::vector<std::string>& paths) -> std::unique_ptr<Dataset> {
    if (paths.empty()) return nullptr;
    std::vector<std::unique_ptr<Dataset>> parts;
    for (const std::string& path : paths)
      parts.push_back((config.rl == "dpo" ? open_pairs : open_dataset)(
          path, config.sequence_len, *tools->tokenizer, *tools->chat, document_options(config, *tools)));
    return joined(std::move(parts));
  };
  task.data = open_all(config.datasets);
  task.test_data = open_all(config.test_datasets);
  task.targets = config.rl == "dpo" ? 1 : config.sequence_len;
  task.counts_items = config.rl == "dpo";
  task.words = fmt::format("{} tokens in the vocabulary", tools->tokenizer->vocab_size());
  task.unit = config.rl == "dpo" ? "pairs" : "tokens";
  return task;
}

}  // namespace butterfly::train
