// The parts of a tokenizer.json on their way into metadata; see hf_tokenizer.h.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/metadata/metadata.h"
#include "model/tokenizer/vocabulary.h"

namespace butterfly::model {

using Json = nlohmann::json;

// What is collected before it is written under GGUF's keys. Ids index `texts`, `types`, `scores` and `flags`.
struct HfTokenizer {
  std::string model;  // "gpt2", "llama", "t5", "bert"
  std::string pre;
  std::vector<std::string> texts;
  std::vector<int32_t> types;
  std::vector<float> scores;
  std::vector<int32_t> flags;
  std::vector<std::string> merges;
  std::vector<std::string> rules;
  std::vector<uint8_t> charsmap;
  std::optional<bool> space_prefix, remove_extra_spaces, lowercase, strip_accents;
  std::optional<int32_t> bos, eos, unknown, padding, separator, mask;
  std::optional<bool> add_bos, add_eos;
  bool prepends_space = false;  // a normalizer puts one before every text: before those of added tokens too
  std::string source;

  std::optional<int32_t> find(std::string_view text) const;
  // Room for `count` tokens; gaps are unused tokens "[PAD<id>]".
  void resize(size_t count);
};

// Checked access: `place` names where in the file we are. Throw Error kCorrupt.
const Json& json_at(const Json& object, const char* key, const std::string& place);
std::string json_string(const Json& object, const char* key, const std::string& place);
bool json_flag(const Json& object, const char* key, bool otherwise);
std::string json_string_or(const Json& object, const char* key, std::string_view otherwise);
// A sequence's parts, or the thing itself; nothing for null. `list_key` is "normalizers", "pretokenizers",
// ...
std::vector<const Json*> json_sequence(const Json& root, const char* key, const char* list_key);

// Each model type with the normalizer and pre_tokenizer that go with it (hf_models.cc).
void read_hf_model(const Json& root, HfTokenizer& tokenizer);
// The pre-tokenizer's name by its expressions (hf_pre_tokenizer.cc). Throws Error kUnsupported.
std::string recognise_pre_tokenizer(const Json& root, bool ignore_merges, const std::string& source);

}  // namespace butterfly::model
