#include "model/tokenizer/hf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json_text.h"
#include "base/printable.h"
#include "model/tokenizer/hf_metadata.h"
#include "model/tokenizer/hf_parts.h"

namespace butterfly::model {
namespace {

Json parse(const std::string& text, const std::string& what) {
  try {
    return json_of_text<Json>(text);
  } catch (const Json::exception& e) {
    fail(Errc::kCorrupt, "{}: expected JSON, found: {}", what, printable(e.what(), 200));
  }
}

// Tokens beside the model's: they are found in a text before anything else.
void read_added_tokens(const Json& root, HfTokenizer& t) {
  if (!root.contains("added_tokens")) return;
  const Json& list = root["added_tokens"];
  if (!list.is_array())
    fail(Errc::kCorrupt, "{}: added_tokens: expected an array, found {}", t.source, list.type_name());
  const std::string place = t.source + ": added_tokens";
  const uint64_t limit = t.texts.size() + list.size() * 2 + 65536;
  for (const Json& token : list) {
    const Json& id = json_at(token, "id", place);
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= limit)
      fail(Errc::kCorrupt, "{}: id: expected a number below {}, found {}", place, limit,
           printable(json_text(id)));
    const auto at = id.get<size_t>();
    if (at >= t.texts.size()) t.resize(at + 1);
    t.texts[at] = json_string(token, "content", place);
    const bool special = json_flag(token, "special", false);
    if (t.types[at] != static_cast<int32_t>(TokenType::kUnknown))
      t.types[at] = static_cast<int32_t>(special ? TokenType::kControl : TokenType::kUserDefined);
    int32_t flags = 0;
    if (json_flag(token, "lstrip", false)) flags |= kStripLeft;
    if (json_flag(token, "rstrip", false)) flags |= kStripRight;
    if (json_flag(token, "single_word", false)) flags |= kSingleWord;
    if (t.prepends_space && json_flag(token, "normalized", false)) flags |= kAfterSpace;
    if (flags != 0 && t.flags.empty()) t.flags.resize(t.texts.size());
    if (!t.flags.empty()) {
      t.flags.resize(t.texts.size());
      t.flags[at] = flags;
    }
  }
}

// "<s>" or {"content": "<s>", ...}.
std::optional<int32_t> config_token(const Json& config, const char* key, const HfTokenizer& t) {
  if (!config.is_object() || !config.contains(key)) return std::nullopt;
  const Json& value = config[key];
  if (value.is_string()) return t.find(value.get<std::string>());
  if (value.is_object()) return t.find(json_string_or(value, "content", ""));
  return std::nullopt;
}

// {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": ...}]}: what stands before and after a text.
void read_template(const Json& processor, HfTokenizer& t) {
  if (!processor.contains("single") || !processor["single"].is_array()) return;
  bool after_text = false;
  std::optional<int32_t> first, last;
  for (const Json& item : processor["single"]) {
    if (!item.is_object()) continue;
    if (item.contains("Sequence")) after_text = true;
    if (!item.contains("SpecialToken")) continue;
    const auto id = t.find(json_string_or(item["SpecialToken"], "id", ""));
    if (!after_text && !first) first = id;
    if (after_text) last = id;
  }
  t.add_bos = first.has_value();
  t.add_eos = last.has_value();
  if (first && !t.bos) t.bos = first;
  if (last && !t.eos) t.eos = last;
  if (t.model == "bert" && last) t.separator = last;
}

void read_post_processor(const Json& root, HfTokenizer& t) {
  for (const Json* part : json_sequence(root, "post_processor", "processors")) {
    const std::string type = json_string_or(*part, "type", "");
    if (type == "TemplateProcessing") read_template(*part, t);
    if (type == "BertProcessing" || type == "RobertaProcessing") {
      const auto token = [&](const char* key) -> std::optional<int32_t> {
        const bool there = part->contains(key) && (*part)[key].is_array() && !(*part)[key].empty() &&
                           (*part)[key][0].is_string();
        return there ? t.find((*part)[key][0].get<std::string>()) : std::nullopt;
      };
      if (const auto cls = token("cls")) t.bos = cls;
      if (const auto sep = token("sep")) t.separator = t.eos = sep;
      t.add_bos = t.add_eos = true;
    }
  }
}

void read_config(const Json& config, HfTokenizer& t) {
  t.bos = config_token(config, "bos_token", t);
  t.eos = config_token(config, "eos_token", t);
  t.padding = config_token(config, "pad_token", t);
  t.mask = config_token(config, "mask_token", t);
  t.separator = config_token(config, "sep_token", t);
  if (t.model == "bert") {
    if (const auto cls = config_token(config, "cls_token", t)) t.bos = cls;
    if (t.separator) t.eos = t.separator;
  }
  if (const auto unknown = config_token(config, "unk_token", t); unknown && t.model != "gpt2")
    t.unknown = unknown;
}

// These win over the template: Hugging Face's Llama classes build the template from them.
void read_config_flags(const Json& config, HfTokenizer& t) {
  if (!config.is_object()) return;
  for (const auto& [key, flag] : {std::pair{"add_bos_token", &t.add_bos}, {"add_eos_token", &t.add_eos}})
    if (config.contains(key) && config[key].is_boolean()) *flag = config[key].get<bool>();
}

}  // namespace

std::optional<int32_t> HfTokenizer::find(std::string_view text) const {
  const auto at = std::find(texts.begin(), texts.end(), text);
  if (at == texts.end() || text.empty()) return std::nullopt;
  return static_cast<int32_t>(at - texts.begin());
}

void HfTokenizer::resize(size_t count) {
  const size_t before = texts.size();
  texts.resize(count);
  types.resize(count, static_cast<int32_t>(TokenType::kUnused));
  if (!scores.empty()) scores.resize(count, 0);
  for (size_t i = before; i < count; ++i) texts[i] = fmt::format("[PAD{}]", i);
}

const Json& json_at(const Json& object, const char* key, const std::string& place) {
  if (!object.is_object() || !object.contains(key))
    fail(Errc::kCorrupt, "{}: expected an object with '{}', found {}", place, key,
         object.is_object() ? "none" : object.type_name());
  return object[key];
}

std::string json_string(const Json& object, const char* key, const std::string& place) {
  const Json& value = json_at(object, key, place);
  if (!value.is_string())
    fail(Errc::kCorrupt, "{}: {}: expected a string, found {}", place, key, value.type_name());
  return value.get<std::string>();
}

std::string json_string_or(const Json& object, const char* key, std::string_view otherwise) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_string()) return std::string(otherwise);
  return object[key].get<std::string>();
}

bool json_flag(const Json& object, const char* key, bool otherwise) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_boolean()) return otherwise;
  return object[key].get<bool>();
}

std::vector<const Json*> json_sequence(const Json& root, const char* key, const char* list_key) {
  if (!root.is_object() || !root.contains(key) || root[key].is_null()) return {};
  std::vector<const Json*> waiting = {&root[key]}, parts;
  while (!waiting.empty()) {
    const Json* next = waiting.back();
    waiting.pop_back();
    if (next->is_object() && next->contains(list_key) && (*next)[list_key].is_array()) {
      const Json& list = (*next)[list_key];
      for (auto it = list.rbegin(); it != list.rend(); ++it) waiting.push_back(&*it);
    } else {
      parts.push_back(next);
    }
  }
  return parts;
}

void add_tokenizer_metadata_from_json(const std::string& tokenizer_json,
                                      const std::string& tokenizer_config_json, Metadata& metadata) {
  HfTokenizer t;
  t.source = metadata.source();
  const Json root = parse(tokenizer_json, t.source);
  const Json config = tokenizer_config_json.empty()
                          ? Json::object()
                          : parse(tokenizer_config_json, t.source + ": tokenizer_config");
  try {
    read_hf_model(root, t);
    read_added_tokens(root, t);
    read_config(config, t);
    read_post_processor(root, t);
    read_config_flags(config, t);
  } catch (const Json::exception& e) {
    fail(Errc::kCorrupt, "{}: expected a tokenizer.json, found: {}", t.source, printable(e.what(), 200));
  }
  add_hf_metadata(std::move(t), metadata);
}

std::unique_ptr<Tokenizer> tokenizer_from_json(const std::string& tokenizer_json,
                                               const std::string& tokenizer_config_json,
                                               const std::string& source) {
  Metadata metadata(source);
  add_tokenizer_metadata_from_json(tokenizer_json, tokenizer_config_json, metadata);
  return make_tokenizer(metadata);
}

std::unique_ptr<Tokenizer> tokenizer_from_sentencepiece(std::span<const std::byte> model,
                                                        const std::string& source) {
  Metadata metadata(source);
  add_tokenizer_metadata_from_sentencepiece(model, metadata);
  return make_tokenizer(metadata);
}

}  // namespace butterfly::model
