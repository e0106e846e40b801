// `butterfly show`: what a model file holds.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json_text.h"
#include "base/units.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/flags.h"
#include "cli/console/options.h"
#include "cli/models/model_input.h"
#include "model/arch/model_config.h"
#include "model/arch/predictor.h"
#include "model/arch/why_not_run.h"

namespace butterfly::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ShowOptions {
  ModelInput model;
  bool tensors = false;
  bool metadata = false;
  bool json = false;
};

// The numbers people ask for, by GGUF key behind the architecture's name.
struct Size {
  const char* key;
  const char* words;
  const char* json;
};
constexpr Size kSizes[] = {
    {"context_length", "context", "context_length"},
    {"block_count", "layers", "layers"},
    {"embedding_length", "embedding", "embedding_length"},
    {"feed_forward_length", "feed-forward", "feed_forward_length"},
    {"attention.head_count", "heads", "heads"},
    {"attention.head_count_kv", "kv heads", "kv_heads"},
    {"attention.key_length", "head size", "head_size"},
    {"attention.sliding_window", "window", "sliding_window"},
    {"expert_count", "experts", "experts"},
    {"rope.freq_base", "rope base", "rope_freq_base"},
    {"nextn_predict_layers", "of these ahead", "predicting_layers"},
};

// Metadata as text: a file may hold any type under any key, and `show` has to show it all the same.
std::optional<std::string> text_of(const model::Metadata& metadata, const std::string& key) {
  const model::MetaValue* value = metadata.find(key);
  if (value == nullptr) return std::nullopt;
  return model::meta_text(*value);
}

std::optional<size_t> vocabulary_size(const model::Metadata& metadata) {
  const model::MetaValue* tokens = metadata.find("tokenizer.ggml.tokens");
  if (tokens == nullptr || !std::holds_alternative<model::MetaArray>(*tokens)) return std::nullopt;
  return std::get<model::MetaArray>(*tokens).size();
}

// What layers keep of a text; empty for a file that cannot be run.
std::string kept_by_layers(const model::ModelFile& file) {
  try {
    return model::describe(model::read_config(file).states);
  } catch (const Error&) {
    return {};
  }
}

// What becomes of blocks that predict ahead; empty for a file without any.
std::string predicting(const model::ModelFile& file) {
  try {
    if (model::predicting_blocks(file) == 0) return {};
    const std::string reason = model::why_not_predict(file);
    if (!reason.empty()) return "not run: " + reason;
    const model::ModelConfig config = model::read_config(file);
    const auto state = model::predicting_state(file, config);
    return fmt::format("guesses tokens ahead on one machine ({})", model::describe({&*state, 1}));
  } catch (const Error&) {
    return {};
  }
}

void line(std::string_view name, std::string_view value) { fmt::print("{:<14}{}\n", name, value); }

void print_summary(const model::ModelFile& file) {
  const model::Metadata& metadata = file.metadata();
  line("file", file.path().string());
  line("format", file.format());
  line("size", format_bytes(file.file_bytes()));
  line("architecture", file.architecture());
  if (const auto name = text_of(metadata, "general.name")) line("name", *name);
  line("parameters", fmt::format("{} ({})", format_count(file.parameter_count()), file.parameter_count()));
  std::string_view heading = "types";
  for (const model::TypeShare& share : file.type_shares()) {
    line(heading, fmt::format("{:<8} {:>5} tensors  {:>9} values  {:>10}", share.type, share.tensor_count,
                              format_count(share.value_count), format_bytes(share.bytes)));
    heading = "";
  }
  for (const Size& size : kSizes) {
    if (const auto value = text_of(metadata, file.architecture() + "." + size.key)) line(size.words, *value);
  }
  if (const std::string kept = kept_by_layers(file); !kept.empty()) line("state", kept);
  if (const std::string words = predicting(file); !words.empty()) line("predicts", words);
  if (metadata.has(model::kTokenizerWhyNotKey)) {
    line("tokenizer", "cannot be used: " + metadata.string(model::kTokenizerWhyNotKey));
  } else if (const auto kind = text_of(metadata, "tokenizer.ggml.model")) {
    const auto tokens = vocabulary_size(metadata);
    line("tokenizer", tokens ? fmt::format("{}, {} tokens", *kind, *tokens) : *kind);
  } else {
    line("tokenizer", "none in the file");
  }
  if (const std::string reason = model::why_not_run(file); !reason.empty()) line("cannot run", reason);
}

void print_metadata(const model::Metadata& metadata) {
  fmt::print("\n{} metadata keys:\n", metadata.entries().size());
  for (const auto& [key, value] : metadata.entries()) {
    fmt::print("  {:<42} {:<16} {}\n", key, model::meta_type_text(value), model::meta_text(value));
  }
}

void print_tensors(const model::ModelFile& file) {
  fmt::print("\n{} tensors:\n", file.tensors().size());
  for (const model::NamedTensor& entry : file.tensors()) {
    fmt::print("  {:<36} {:<8} {:<20} {:>10}  at {}\n", entry.name, entry.type_name(),
               entry.shape.to_string(), format_bytes(entry.bytes), entry.offset);
  }
}

struct JsonOfElements {
  Json operator()(const std::vector<model::MetaArray>& arrays) const {
    Json json = Json::array();
    for (const model::MetaArray& array : arrays) json.push_back(std::visit(*this, array.elements));
    return json;
  }
  template <typename T>
  Json operator()(const std::vector<T>& values) const {
    return values;
  }
};

struct JsonOfValue {
  Json operator()(const model::MetaArray& array) const {
    return std::visit(JsonOfElements{}, array.elements);
  }
  template <typename T>
  Json operator()(const T& value) const {
    return value;
  }
};

Json json_of_tensors(const model::ModelFile& file) {
  Json tensors = Json::array();
  for (const model::NamedTensor& entry : file.tensors()) {
    tensors.push_back({{"name", entry.name},
                       {"type", entry.type_name()},
                       {"shape", entry.shape.sizes()},
                       {"bytes", entry.bytes},
                       {"offset", entry.offset}});
  }
  return tensors;
}

Json json_of(const model::ModelFile& file, const ShowOptions& options) {
  const model::Metadata& metadata = file.metadata();
  Json json = {{"file", file.path().string()},
               {"format", file.format()},
               {"bytes", file.file_bytes()},
               {"architecture", file.architecture()},
               {"parameters", file.parameter_count()}};
  if (const model::MetaValue* name = metadata.find("general.name"))
    json["name"] = std::visit(JsonOfValue{}, *name);
  json["types"] = Json::array();
  for (const model::TypeShare& share : file.type_shares()) {
    json["types"].push_back({{"type", share.type},
                             {"tensors", share.tensor_count},
                             {"values", share.value_count},
                             {"bytes", share.bytes}});
  }
  for (const Size& size : kSizes) {
    const model::MetaValue* value = metadata.find(file.architecture() + "." + size.key);
    if (value != nullptr) json[size.json] = std::visit(JsonOfValue{}, *value);
  }
  if (const std::string kept = kept_by_layers(file); !kept.empty()) json["state"] = kept;
  if (const std::string words = predicting(file); !words.empty()) json["predicts"] = words;
  if (const model::MetaValue* kind = metadata.find("tokenizer.ggml.model")) {
    json["tokenizer"] = std::visit(JsonOfValue{}, *kind);
  }
  if (const auto tokens = vocabulary_size(metadata)) json["vocabulary_size"] = *tokens;
  if (const std::string reason = model::why_not_run(file); !reason.empty()) json["cannot_run"] = reason;
  if (options.metadata) {
    for (const auto& [key, value] : metadata.entries())
      json["metadata"][key] = std::visit(JsonOfValue{}, value);
  }
  if (options.tensors) json["tensors"] = json_of_tensors(file);
  return json;
}

// safetensors without config.json: an adapter, part of a model, anything.
int show_bare(const model::ModelFile& file, const ShowOptions& options) {
  if (options.json) {
    Json json = {{"file", file.path().string()}, {"format", file.format()}, {"bytes", file.file_bytes()}};
    json["tensors"] = json_of_tensors(file);
    fmt::print("{}\n", json_text(json, 2));
    return kExitOk;
  }
  line("file", file.path().string());
  line("format", file.format());
  line("size", format_bytes(file.file_bytes()));
  line("architecture", "not known: no config.json beside it");
  if (options.metadata) print_metadata(file.metadata());
  print_tensors(file);
  return kExitOk;
}

int show(const ShowOptions& options) {
  const model::ModelFile file = options.model.open();
  // A file that does not say what it is gets an error instead of half a page; lone tensors are a list all the
  // same.
  if (file.format() == "safetensors") return show_bare(file, options);
  file.architecture();
  if (options.json) {
    fmt::print("{}\n", json_text(json_of(file, options), 2));
    return kExitOk;
  }
  print_summary(file);
  if (options.metadata) print_metadata(file.metadata());
  if (options.tensors) print_tensors(file);
  return kExitOk;
}

}  // namespace

CommandBody setup_show(CLI::App& app) {
  auto options = std::make_shared<ShowOptions>();
  options->model.add_to(app);
  add_flag(app, "--metadata", options->metadata, "Also every metadata key");
  add_flag(app, "--tensors", options->tensors, "Also every tensor: type, shape, size, place in the file");
  add_json_flag(app, options->json);
  return [options] { return show(*options); };
}

}  // namespace butterfly::cli
