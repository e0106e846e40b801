#include "train/tokenizer/tokenizer_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "model/tokenizer/byte_level.h"

namespace butterfly::train {
namespace {

using Json = nlohmann::ordered_json;

Json byte_level(bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

// The published expressions one behind the other, then bytes as letters. GPT-2's alone is what ByteLevel has
// built in.
Json pre_tokenizer(const std::string& name) {
  const model::PreTokenizerRow* row = model::find_pre_tokenizer(name);
  if (row == nullptr || row->raw_text || row->original.empty())
    fail(Errc::kUnsupported, "tokenizer.json: cannot say how '{}' cuts texts into words", name);
  if (row->original.size() == 1 && row->original[0] == model::kGpt2Regex) return byte_level(true);
  Json steps = Json::array();
  for (const std::string_view regex : row->original)
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", std::string(regex)}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  steps.push_back(byte_level(false));
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

size_t id_of(const BpeVocabulary& vocabulary, const std::string& text) {
  const auto at = std::find(vocabulary.special.begin(), vocabulary.special.end(), text);
  if (at == vocabulary.special.end())
    fail(Errc::kInvalidArgument, "'{}' is not among the special tokens", text);
  return static_cast<size_t>(at - vocabulary.special.begin());
}

// Puts bos before a text.
Json post_processor(const BpeVocabulary& vocabulary, const std::string& bos) {
  if (bos.empty()) return byte_level(false);
  const auto special = [&](int type) { return Json{{"SpecialToken", {{"id", bos}, {"type_id", type}}}}; };
  const auto text = [](const char* name, int type) {
    return Json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  return {{"type", "TemplateProcessing"},
          {"single", Json::array({special(0), text("A", 0)})},
          {"pair", Json::array({special(0), text("A", 0), special(1), text("B", 1)})},
          {"special_tokens",
           {{bos, {{"id", bos}, {"ids", {id_of(vocabulary, bos)}}, {"tokens", Json::array({bos})}}}}}};
}

}  // namespace

std::string tokenizer_json(const BpeVocabulary& vocabulary, const SpecialRoles& roles) {
  for (const std::string* role : {&roles.bos, &roles.eos, &roles.padding})
    if (!role->empty()) id_of(vocabulary, *role);
  Json added = Json::array(), ids = Json::object(), merges = Json::array();
  size_t id = 0;
  for (const std::string& text : vocabulary.special) {
    added.push_back({{"id", id},
                     {"content", text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
    ids[text] = id++;
  }
  for (const std::string& token : vocabulary.tokens) ids[model::to_byte_letters(token)] = id++;
  for (const auto& [left, right] : vocabulary.merges)
    merges.push_back(model::to_byte_letters(left) + " " + model::to_byte_letters(right));
  const model::PreTokenizerRow* row = model::find_pre_tokenizer(vocabulary.pre_tokenizer);
  const Json json = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", pre_tokenizer(vocabulary.pre_tokenizer)},
                     {"post_processor", post_processor(vocabulary, roles.bos)},
                     {"decoder", byte_level(true)},
                     {"model",
                      {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", row->ignore_merges},
                       {"vocab", ids},
                       {"merges", merges}}}};
  return json_text(json, 2) + "\n";
}

std::string tokenizer_config_json(const SpecialRoles& roles) {
  Json json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
               {"add_bos_token", !roles.bos.empty()},
               {"add_eos_token", false},
               {"clean_up_tokenization_spaces", false}};
  const auto role = [&](const char* key, const std::string& text) {
    if (!text.empty()) json[key] = text;
  };
  role("bos_token", roles.bos);
  role("eos_token", roles.eos);
  role("pad_token", roles.padding);
  return json_text(json, 2) + "\n";
}

}  // namespace butterfly::train
