// The model, normalizer and pre_tokenizer of a tokenizer.json.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/error.h"
#include "base/json_text.h"
#include "base/printable.h"
#include "model/tokenizer/hf_parts.h"

namespace butterfly::model {
namespace {

constexpr int32_t kNormal = static_cast<int32_t>(TokenType::kNormal);
constexpr int32_t kByte = static_cast<int32_t>(TokenType::kByte);
constexpr int32_t kUnknownType = static_cast<int32_t>(TokenType::kUnknown);

bool is_byte_token(std::string_view text) {
  const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
  return text.size() == 6 && text.substr(0, 3) == "<0x" && hex(text[3]) && hex(text[4]) && text[5] == '>';
}

[[noreturn]] void refuse(const HfTokenizer& t, std::string_view part, const std::string& found) {
  fail(Errc::kUnsupported, "{}: {}: not supported: {}", t.source, part, printable(found, 200));
}

// {"text": id, ...}. Ids may have gaps (for added tokens), but not so many that they cannot be meant.
void read_vocabulary(const Json& vocab, HfTokenizer& t) {
  if (!vocab.is_object() || vocab.empty())
    fail(Errc::kCorrupt, "{}: model.vocab: expected an object of tokens and ids, found {}", t.source,
         vocab.type_name());
  const uint64_t limit = vocab.size() * 2 + 65536;
  uint64_t count = 0;
  for (const auto& [text, id] : vocab.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= limit)
      fail(Errc::kCorrupt, "{}: model.vocab: token '{}': expected an id below {}, found {}", t.source,
           printable(text), limit, printable(json_text(id)));
    count = std::max(count, id.get<uint64_t>() + 1);
  }
  t.resize(count);
  for (const auto& [text, id] : vocab.items()) {
    const auto at = id.get<size_t>();
    t.texts[at] = text;
    t.types[at] = kNormal;
  }
}

std::vector<std::string> read_merges(const Json& model, const HfTokenizer& t) {
  const Json& list = json_at(model, "merges", t.source + ": model");
  if (!list.is_array())
    fail(Errc::kCorrupt, "{}: model.merges: expected an array, found {}", t.source, list.type_name());
  std::vector<std::string> merges;
  merges.reserve(list.size());
  for (const Json& merge : list) {
    if (merge.is_string()) {
      merges.push_back(merge.get<std::string>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      const auto& left = merge[0].get_ref<const std::string&>();
      const auto& right = merge[1].get_ref<const std::string&>();
      if (left.find(' ') != std::string::npos || right.find(' ') != std::string::npos)
        refuse(t, "model.merges", "a merge of texts with spaces inside, '" + left + "' and '" + right + "'");
      merges.push_back(left + " " + right);
    } else {
      fail(Errc::kCorrupt, "{}: model.merges: merge {}: expected \"left right\", found {}", t.source,
           merges.size(), printable(json_text(merge)));
    }
  }
  return merges;
}

// Tokens and merges of SentencePiece origin: texts are UTF-8, spaces are U+2581.
struct SpaceRules {
  bool escapes = false;  // " " becomes U+2581
  std::optional<bool> prefix;
  bool prefix_first = false;
  bool removes_extra = false;
};

void read_metaspace(const Json& part, SpaceRules& rules) {
  rules.escapes = true;
  const std::string scheme =
      json_string_or(part, "prepend_scheme", json_flag(part, "add_prefix_space", true) ? "always" : "never");
  rules.prefix = scheme != "never";
  rules.prefix_first = scheme == "first";
}

std::string replaced_pattern(const Json& part) {
  if (!part.contains("pattern") || !part["pattern"].is_object()) return "";
  const Json& pattern = part["pattern"];
  return json_string_or(pattern, "String", json_string_or(pattern, "Regex", ""));
}

SpaceRules read_space_rules(const Json& root, HfTokenizer& t);

std::vector<uint8_t> from_base64(const std::string& text, const HfTokenizer& t) {
  std::vector<uint8_t> bytes;
  uint32_t held = 0;
  int bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    int value = -1;
    if (c >= 'A' && c <= 'Z') value = c - 'A';
    if (c >= 'a' && c <= 'z') value = c - 'a' + 26;
    if (c >= '0' && c <= '9') value = c - '0' + 52;
    if (c == '+') value = 62;
    if (c == '/') value = 63;
    if (value < 0)
      fail(Errc::kCorrupt, "{}: normalizer.precompiled_charsmap: expected base64, found byte {:#04x}",
           t.source, static_cast<unsigned char>(c));
    held = (held << 6 | static_cast<uint32_t>(value)) & 0xffffff;
    bits += 6;
    if (bits >= 8) bytes.push_back(static_cast<uint8_t>(held >> (bits -= 8)));
  }
  return bytes;
}

void read_space_normalizer(const Json& part, HfTokenizer& t, SpaceRules& rules) {
  const std::string type = json_string(part, "type", t.source + ": normalizer");
  if (type == "Prepend" && json_string_or(part, "prepend", "") == kSpaceMark) {
    rules.prefix = t.prepends_space = true;
  } else if (type == "Replace" && replaced_pattern(part) == " " &&
             json_string_or(part, "content", "") == kSpaceMark) {
    rules.escapes = true;
  } else if (type == "Replace" && replaced_pattern(part) == " {2,}" &&
             (json_string_or(part, "content", "") == " " ||
              json_string_or(part, "content", "") == kSpaceMark)) {
    rules.removes_extra = true;
  } else if (type == "Precompiled") {
    if (part.contains("precompiled_charsmap") && part["precompiled_charsmap"].is_string())
      t.charsmap = from_base64(part["precompiled_charsmap"].get<std::string>(), t);
  } else if (type == "Strip") {
    rules.removes_extra = true;
  } else {
    refuse(t, "normalizer", json_text(part));
  }
}

SpaceRules read_space_rules(const Json& root, HfTokenizer& t) {
  SpaceRules rules;
  for (const Json* part : json_sequence(root, "normalizer", "normalizers"))
    read_space_normalizer(*part, t, rules);
  for (const Json* part : json_sequence(root, "pre_tokenizer", "pretokenizers")) {
    const std::string type = json_string(*part, "type", t.source + ": pre_tokenizer");
    const bool escaped_already = rules.escapes;
    if (type == "Metaspace")
      read_metaspace(*part, rules);
    else if (type == "WhitespaceSplit" && t.model == "t5")
      rules.removes_extra = true;
    else if (!(type == "Split" && escaped_already && replaced_pattern(*part) == " "))  // finds none any more
      refuse(t, "pre_tokenizer", part->dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return rules;
}

void read_byte_level(const Json& root, const Json& model, HfTokenizer& t) {
  t.model = "gpt2";
  t.merges = read_merges(model, t);
  t.pre = recognise_pre_tokenizer(root, json_flag(model, "ignore_merges", false), t.source);
  t.rules.push_back("original-pre");
  for (const Json* part : json_sequence(root, "normalizer", "normalizers")) {
    const std::string type = json_string(*part, "type", t.source + ": normalizer");
    if (type != "NFC") refuse(t, "normalizer", type);
    t.rules.push_back("nfc");
  }
}

// A text's score is that of the first merge that makes it, so that programs which go by scores (llama.cpp)
// come close; by rank it is exact.
void add_scores(HfTokenizer& t) {
  std::unordered_map<std::string, size_t> rank_of;
  for (size_t rank = 0; rank < t.merges.size(); ++rank) {
    std::string joint = t.merges[rank];
    const size_t space = joint.find(' ', 1);
    if (space != std::string::npos) joint.erase(space, 1);
    rank_of.emplace(std::move(joint), rank);
  }
  t.scores.resize(t.texts.size());
  for (size_t i = 0; i < t.texts.size(); ++i) {
    const auto found = rank_of.find(t.texts[i]);
    t.scores[i] = -static_cast<float>((found == rank_of.end() ? t.merges.size() : found->second) + 1);
    if (t.types[i] != kNormal) t.scores[i] = 0;
  }
}

void read_space_marked(const Json& root, const Json& model, HfTokenizer& t) {
  t.model = "llama";
  t.merges = read_merges(model, t);
  t.rules.push_back("merge-ranks");
  const SpaceRules rules = read_space_rules(root, t);
  if (!rules.escapes) refuse(t, "normalizer", "BPE that neither is byte-level nor writes spaces as U+2581");
  if (!t.charsmap.empty() || rules.removes_extra) refuse(t, "normalizer", "a character map before BPE");
  if (json_flag(model, "ignore_merges", false)) refuse(t, "model", "ignore_merges without byte-level BPE");
  t.space_prefix = rules.prefix.value_or(false);
  if (rules.prefix_first) t.rules.push_back("prefix-first");
  if (json_flag(model, "byte_fallback", false))
    for (size_t i = 0; i < t.texts.size(); ++i)
      if (is_byte_token(t.texts[i])) t.types[i] = kByte;
  const std::string unknown = json_string_or(model, "unk_token", "");
  t.unknown = unknown.empty() ? std::nullopt : t.find(unknown);
  if (t.unknown) t.types[static_cast<size_t>(*t.unknown)] = kUnknownType;
  add_scores(t);
}

bool uses_byte_level(const Json& root) {
  for (const Json* part : json_sequence(root, "pre_tokenizer", "pretokenizers"))
    if (json_string_or(*part, "type", "") == "ByteLevel") return true;
  return false;
}

void read_bpe(const Json& root, const Json& model, HfTokenizer& t) {
  read_vocabulary(json_at(model, "vocab", t.source + ": model"), t);
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!json_string_or(model, key, "").empty()) refuse(t, "model", std::string("BPE with ") + key);
  if (uses_byte_level(root))
    read_byte_level(root, model, t);
  else
    read_space_marked(root, model, t);
}

void read_unigram(const Json& root, const Json& model, HfTokenizer& t) {
  t.model = "t5";
  const Json& vocab = json_at(model, "vocab", t.source + ": model");
  if (!vocab.is_array() || vocab.empty())
    fail(Errc::kCorrupt, "{}: model.vocab: expected an array of [text, score], found {}", t.source,
         vocab.type_name());
  t.resize(vocab.size());
  t.scores.resize(vocab.size());
  for (size_t i = 0; i < vocab.size(); ++i) {
    const Json& row = vocab[i];
    if (!row.is_array() || row.size() != 2 || !row[0].is_string() || !row[1].is_number())
      fail(Errc::kCorrupt, "{}: model.vocab: token {}: expected [text, score], found {}", t.source, i,
           printable(json_text(row)));
    t.texts[i] = row[0].get<std::string>();
    t.scores[i] = static_cast<float>(row[1].get<double>());
    t.types[i] = kNormal;
    if (json_flag(model, "byte_fallback", false) && is_byte_token(t.texts[i])) t.types[i] = kByte;
  }
  if (model.contains("unk_id") && model["unk_id"].is_number_unsigned() &&
      model["unk_id"].get<uint64_t>() < t.texts.size()) {
    t.unknown = model["unk_id"].get<int32_t>();
    t.types[static_cast<size_t>(*t.unknown)] = kUnknownType;
  }
  const SpaceRules rules = read_space_rules(root, t);
  t.space_prefix = rules.prefix.value_or(false);
  if (rules.prefix_first) t.rules.push_back("prefix-first");
  // The published character maps of SentencePiece leave single spaces, and Metaspace splits at each.
  t.remove_extra_spaces = rules.removes_extra || !t.charsmap.empty();
}

void read_word_piece(const Json& root, const Json& model, HfTokenizer& t) {
  t.model = "bert";
  read_vocabulary(json_at(model, "vocab", t.source + ": model"), t);
  const std::string prefix = json_string_or(model, "continuing_subword_prefix", "##");
  for (size_t i = 0; i < t.texts.size(); ++i) {
    std::string& text = t.texts[i];
    if (t.types[i] != kNormal || (!text.empty() && text.front() == '[' && text.back() == ']')) continue;
    text = !prefix.empty() && text.rfind(prefix, 0) == 0 ? text.substr(prefix.size())
                                                         : std::string(kSpaceMark) + text;
  }
  const std::string unknown = json_string_or(model, "unk_token", "[UNK]");
  t.unknown = t.find(unknown);
  for (const Json* part : json_sequence(root, "normalizer", "normalizers")) {
    const std::string type = json_string(*part, "type", t.source + ": normalizer");
    if (type != "BertNormalizer") refuse(t, "normalizer", type);
    t.lowercase = json_flag(*part, "lowercase", true);
    const bool says = part->contains("strip_accents") && (*part)["strip_accents"].is_boolean();
    t.strip_accents = says ? (*part)["strip_accents"].get<bool>() : *t.lowercase;
    if (!json_flag(*part, "handle_chinese_chars", true) || !json_flag(*part, "clean_text", true))
      refuse(t, "normalizer", "BertNormalizer without handle_chinese_chars or clean_text");
  }
  for (const Json* part : json_sequence(root, "pre_tokenizer", "pretokenizers"))
    if (const auto type = json_string(*part, "type", t.source + ": pre_tokenizer");
        type != "BertPreTokenizer")
      refuse(t, "pre_tokenizer", type);
}

}  // namespace

void read_hf_model(const Json& root, HfTokenizer& t) {
  const Json& model = json_at(root, "model", t.source);
  std::string type = json_string_or(model, "type", "");
  if (type.empty() && model.is_object() && model.contains("merges")) type = "BPE";  // old files do not say
  if (type == "BPE") return read_bpe(root, model, t);
  if (type == "Unigram") return read_unigram(root, model, t);
  if (type == "WordPiece") return read_word_piece(root, model, t);
  refuse(t, "model.type", type.empty() ? "none" : type);
}

}  // namespace butterfly::model
