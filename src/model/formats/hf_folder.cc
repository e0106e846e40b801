#include "model/formats/hf_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "model/formats/file_kind.h"
#include "model/formats/file_type.h"
#include "model/formats/hf_architecture.h"
#include "model/formats/hf_tensors.h"
#include "model/formats/hf_values.h"
#include "model/formats/json_file.h"
#include "model/formats/safetensors.h"
#include "model/tokenizer/hf_tokenizer.h"
#include "model/tokenizer/vocabulary.h"

namespace butterfly::model {
namespace {

namespace fs = std::filesystem;
using Shards = std::vector<std::shared_ptr<const SafetensorsFile>>;

constexpr const char* kConfig = "config.json";
constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr size_t kShardsMax = 10000;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_safetensors_source(const ModelSource& source) {
  if (is_safetensors(source.head)) return true;
  // By its name it wants to be one: let the reader say what is wrong, unless it is plainly something else.
  return source.path.extension() == ".safetensors" && !is_known_other_file(source.head);
}

std::shared_ptr<const SafetensorsFile> open_shard(const fs::path& path, FileAccess access) {
  return std::make_shared<const SafetensorsFile>(SafetensorsFile::open(path, access));
}

// The files of a sharded model, by its index. Names are input: they may not lead out of the folder.
Shards open_index(const fs::path& index, FileAccess access) {
  const nlohmann::json json = parse_json(read_text_file(index), index.string());
  const JsonObject root(json, index.string());
  const auto map = root.object("weight_map");
  if (!map) fail(Errc::kCorrupt, "{}: expected a weight_map, found none", index.string());
  std::set<std::string> names;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    if (!file.is_string()) map->mismatch(tensor, "a file name");
    const std::string name = file.get<std::string>();
    if (name.empty() || name == ".." || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos)
      fail(Errc::kCorrupt, "{}: weight_map: expected a plain file name, found '{}'", index.string(),
           printable(name));
    names.insert(name);
    if (names.size() > kShardsMax)
      fail(Errc::kCorrupt, "{}: weight_map: expected at most {} files", index.string(), kShardsMax);
  }
  Shards shards;
  std::set<std::string> held;
  for (const std::string& name : names) {
    const fs::path path = index.parent_path() / name;
    if (!is_file(path))
      fail(Errc::kNotFound, "{}: shard {} is missing: expected {}", index.string(), printable(name),
           path.string());
    shards.push_back(open_shard(path, access));
    for (const SafetensorsTensor& tensor : shards.back()->tensors()) held.insert(tensor.name);
  }
  for (const auto& [tensor, file] : json["weight_map"].items())
    if (!held.count(tensor))
      fail(Errc::kCorrupt, "{}: tensor {}: expected in {}, found in no shard", index.string(),
           printable(tensor), printable(file.get<std::string>()));
  return shards;
}

Shards open_shards(const fs::path& folder, const fs::path& only, FileAccess access) {
  if (!only.empty()) return {open_shard(only, access)};
  if (is_file(folder / kIndex)) return open_index(folder / kIndex, access);
  if (is_file(folder / kSingle)) return {open_shard(folder / kSingle, access)};
  const bool pickles =
      is_file(folder / "pytorch_model.bin") || is_file(folder / "pytorch_model.bin.index.json");
  fail(Errc::kNotFound, "{}: expected {} or {}, found neither{}", folder.string(), kSingle, kIndex,
       pickles ? "; the weights are PyTorch pickles, which are not read: save them as safetensors" : "");
}

// What most values are: one of the types that such folders have.
DType main_type(const std::vector<NamedTensor>& tensors) {
  uint64_t f16 = 0, bf16 = 0, other = 0;
  for (const NamedTensor& tensor : tensors)
    (tensor.dtype == DType::kF16 ? f16 : tensor.dtype == DType::kBF16 ? bf16 : other) += tensor.count();
  if (bf16 > f16 && bf16 > other) return DType::kBF16;
  return f16 > other ? DType::kF16 : DType::kF32;
}

// An id, or the first of a list of ids.
void set_token_id(const JsonObject& config, const char* from, const char* to, Metadata& metadata) {
  const nlohmann::json* id = config.find(from);
  if (id && id->is_array() && !id->empty()) id = &id->front();
  if (id && id->is_number_unsigned() && id->get<uint64_t>() <= UINT32_MAX && !metadata.has(to))
    metadata.set(to, id->get<uint32_t>());
}

// The template for chats: a file of its own, a string, or one of a list of named strings.
std::string chat_template(const fs::path& folder, const JsonObject& settings) {
  if (is_file(folder / "chat_template.jinja")) return read_text_file(folder / "chat_template.jinja");
  const nlohmann::json* found = settings.find("chat_template");
  if (!found) return {};
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) settings.mismatch("chat_template", "a string or a list");
  for (const nlohmann::json& item : *found) {
    const JsonObject named(item, settings.file(), "chat_template: ");
    if (named.string("name") == "default") return named.string("template");
  }
  return {};
}

// False if the folder has none.
bool read_tokenizer(const fs::path& folder, const std::string& settings, Metadata& metadata) {
  if (is_file(folder / "tokenizer.json")) {
    add_tokenizer_metadata_from_json(read_text_file(folder / "tokenizer.json"), settings, metadata);
  } else if (is_file(folder / "tokenizer.model")) {
    const std::string pieces = read_text_file(folder / "tokenizer.model");
    add_tokenizer_metadata_from_sentencepiece(std::as_bytes(std::span(pieces)), metadata);
  } else {
    return false;
  }
  return true;
}

void add_tokenizer(const fs::path& folder, const JsonObject& config, Metadata& metadata) {
  const fs::path settings_path = folder / "tokenizer_config.json";
  const std::string settings = is_file(settings_path) ? read_text_file(settings_path) : std::string();
  try {
    Metadata read = metadata;  // so that nothing half done stays
    if (!read_tokenizer(folder, settings, read)) return;
    metadata = std::move(read);
  } catch (const Error& error) {
    if (error.code() != Errc::kUnsupported) throw;
    metadata.set("tokenizer.ggml.model", std::string("unsupported"));
    metadata.set(std::string(kTokenizerWhyNotKey), std::string(error.what()));
    return;
  }
  set_token_id(config, "bos_token_id", "tokenizer.ggml.bos_token_id", metadata);
  set_token_id(config, "eos_token_id", "tokenizer.ggml.eos_token_id", metadata);
  const nlohmann::json json =
      settings.empty() ? nlohmann::json::object() : parse_json(settings, settings_path.string());
  const std::string words = chat_template(folder, JsonObject(json, settings_path.string()));
  if (!words.empty()) metadata.set("tokenizer.chat_template", words);
}

// What the authors suggest for sampling, under llama.cpp's keys.
void add_generation_config(const fs::path& folder, Metadata& metadata) {
  const fs::path path = folder / "generation_config.json";
  if (!is_file(path)) return;
  const nlohmann::json json = parse_json(read_text_file(path), path.string());
  const JsonObject config(json, path.string());
  if (config.has("temperature")) metadata.set("general.sampling.temp", config.f32("temperature"));
  if (config.has("top_p")) metadata.set("general.sampling.top_p", config.f32("top_p"));
  if (config.has("top_k")) metadata.set("general.sampling.top_k", static_cast<int32_t>(config.u32("top_k")));
}

ModelFile open_folder(const fs::path& folder, const fs::path& only, FileAccess access) {
  const fs::path config_path = folder / kConfig;
  const nlohmann::json json = parse_json(read_text_file(config_path), config_path.string());
  const JsonObject config(json, config_path.string());
  const HfArchitecture& architecture = hf_architecture_of(config);
  const std::string arch(architecture.gguf_name);
  HfConfig read{Metadata(folder.string()), {}};
  read.metadata.set("general.architecture", arch);
  const fs::path named = fs::absolute(folder).lexically_normal();
  read.metadata.set("general.name", (named.has_filename() ? named : named.parent_path()).filename().string());
  architecture.read_config(config, arch, read);

  const Shards shards = open_shards(folder, only, access);
  const bool tied = config.boolean_or("tie_word_embeddings", architecture.tied);
  std::vector<NamedTensor> tensors = map_hf_tensors(architecture, read.metadata, tied, shards);
  for (NamedTensor& extra : read.tensors) tensors.push_back(std::move(extra));
  read.metadata.set("general.file_type", file_type_number(main_type(tensors)));
  add_tokenizer(folder, config, read.metadata);
  add_generation_config(folder, read.metadata);
  std::vector<std::shared_ptr<MappedFile>> files;
  for (const auto& shard : shards) files.push_back(shard->mapping());
  return ModelFile(fmt::format("safetensors ({})", architecture.class_name), only.empty() ? folder : only,
                   std::move(read.metadata), std::move(tensors), std::move(files));
}

// Without config.json there is nothing to say what the tensors are.
ModelFile open_bare(const ModelSource& source) {
  const SafetensorsFile file = SafetensorsFile::open(source.mapping);
  Metadata metadata(source.path.string());
  for (const auto& [key, value] : file.texts()) metadata.set("safetensors." + key, value);
  const auto shared = std::make_shared<const SafetensorsFile>(file);
  std::vector<NamedTensor> tensors;
  for (const SafetensorsTensor& info : file.tensors())
    tensors.push_back(hf_tensor(info.name, {shared, info}, HfValues::kAsStored));
  return ModelFile("safetensors", source.path, std::move(metadata), std::move(tensors), {source.mapping});
}

bool stands_for_folder(const fs::path& file) {
  const std::string name = file.filename().string();
  return name == kSingle || name.find("-of-") != std::string::npos;
}

}  // namespace

std::string hf_why_not(const ModelSource& source) {
  if (source.folder()) return is_file(source.path / kConfig) ? "" : "has no config.json";
  const std::string name = source.path.filename().string();
  if (name == kConfig || name == kIndex || is_safetensors_source(source)) return {};
  return "is neither config.json nor a safetensors file";
}

ModelFile hf_open(const ModelSource& source, const OpenModelOptions& options) {
  if (source.folder()) return open_folder(source.path, {}, options.access);
  const fs::path folder = source.path.has_parent_path() ? source.path.parent_path() : fs::path(".");
  if (!is_safetensors_source(source)) return open_folder(folder, {}, options.access);
  if (!is_file(folder / kConfig)) return open_bare(source);
  return open_folder(folder, stands_for_folder(source.path) ? fs::path() : source.path, options.access);
}

}  // namespace butterfly::model
