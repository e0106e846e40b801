#include "model/tokenizer/vocabulary.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/printable.h"

namespace butterfly::model {
namespace {

void check_size(const Metadata& metadata, std::string_view key, size_t found, size_t expected) {
  if (found != expected)
    fail(Errc::kCorrupt, "{}: key {}: expected {} elements as in tokenizer.ggml.tokens, found {}",
         metadata.source(), key, expected, found);
}

std::vector<TokenType> read_types(const Metadata& metadata, size_t size) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  if (!metadata.has(kKey)) return std::vector<TokenType>(size, TokenType::kNormal);
  const std::vector<int32_t> numbers = metadata.i32s(kKey);
  check_size(metadata, kKey, numbers.size(), size);
  std::vector<TokenType> types(size);
  for (size_t i = 0; i < size; ++i) {
    if (numbers[i] < 0 || numbers[i] > static_cast<int32_t>(TokenType::kByte))
      fail(Errc::kCorrupt, "{}: key {}: token {}: expected a type from 0 to 6, found {}", metadata.source(),
           kKey, i, numbers[i]);
    types[i] = static_cast<TokenType>(numbers[i]);
  }
  return types;
}

std::vector<float> read_scores(const Metadata& metadata, size_t size) {
  constexpr std::string_view kKey = "tokenizer.ggml.scores";
  if (!metadata.has(kKey)) return std::vector<float>(size, 0.0f);
  std::vector<float> scores = metadata.f32s(kKey);
  check_size(metadata, kKey, scores.size(), size);
  for (size_t i = 0; i < size; ++i)
    if (std::isnan(scores[i]))
      fail(Errc::kCorrupt, "{}: key {}: token {}: expected a number, found nan", metadata.source(), kKey, i);
  return scores;
}

// Some writers store 2^32 - 1 for "none".
std::optional<int32_t> read_id(const Metadata& metadata, std::string_view key, size_t size) {
  if (!metadata.has(key)) return std::nullopt;
  const uint64_t id = metadata.u64(key);
  if (id == std::numeric_limits<uint32_t>::max()) return std::nullopt;
  if (id >= size)
    fail(Errc::kCorrupt, "{}: key {}: expected an id below the vocabulary's {}, found {}", metadata.source(),
         key, size, id);
  return static_cast<int32_t>(id);
}

std::optional<bool> read_flag(const Metadata& metadata, std::string_view key) {
  if (!metadata.has(key)) return std::nullopt;
  return metadata.boolean(key);
}

std::vector<uint8_t> read_flags(const Metadata& metadata, size_t size) {
  if (!metadata.has(kFlagsKey)) return {};
  const std::vector<int32_t> numbers = metadata.i32s(kFlagsKey);
  check_size(metadata, kFlagsKey, numbers.size(), size);
  std::vector<uint8_t> flags(size);
  for (size_t i = 0; i < size; ++i) {
    if (numbers[i] < 0 || numbers[i] > (kStripLeft | kStripRight | kSingleWord | kAfterSpace))
      fail(Errc::kCorrupt, "{}: key {}: token {}: expected flags from 0 to 15, found {}", metadata.source(),
           kFlagsKey, i, numbers[i]);
    flags[i] = static_cast<uint8_t>(numbers[i]);
  }
  return flags;
}

TokenizerRules read_rules(const Metadata& metadata) {
  TokenizerRules rules;
  const std::string text = metadata.string_or(kRulesKey, "");
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = std::string_view(text).substr(at, end - at);
    if (word == "nfc")
      rules.nfc = true;
    else if (word == "original-pre")
      rules.original_pre = true;
    else if (word == "merge-ranks")
      rules.merge_ranks = true;
    else if (word == "prefix-first")
      rules.prefix_first = true;
    else if (!word.empty())
      fail(Errc::kUnsupported,
           "{}: key {}: expected nfc, original-pre, merge-ranks or prefix-first, found '{}'",
           metadata.source(), kRulesKey, printable(word));
    at = end + 1;
  }
  return rules;
}

}  // namespace

Vocabulary Vocabulary::read(const Metadata& metadata) {
  Vocabulary v;
  v.source = metadata.source();
  const auto tokens = metadata.strings("tokenizer.ggml.tokens");
  if (tokens.empty() || tokens.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    fail(Errc::kCorrupt, "{}: key tokenizer.ggml.tokens: expected 1 to 2^31 - 1 tokens, found {}", v.source,
         tokens.size());
  v.texts.assign(tokens.begin(), tokens.end());
  v.scores = read_scores(metadata, v.size());
  v.types = read_types(metadata, v.size());
  v.bos = read_id(metadata, "tokenizer.ggml.bos_token_id", v.size());
  v.eos = read_id(metadata, "tokenizer.ggml.eos_token_id", v.size());
  v.eot = read_id(metadata, "tokenizer.ggml.eot_token_id", v.size());
  v.eom = read_id(metadata, "tokenizer.ggml.eom_token_id", v.size());
  v.unknown = read_id(metadata, "tokenizer.ggml.unknown_token_id", v.size());
  v.padding = read_id(metadata, "tokenizer.ggml.padding_token_id", v.size());
  v.cls = read_id(metadata, "tokenizer.ggml.cls_token_id", v.size());
  v.separator = read_id(metadata, "tokenizer.ggml.seperator_token_id", v.size());  // GGUF's spelling
  v.flags = read_flags(metadata, v.size());
  v.rules = read_rules(metadata);
  v.add_bos = read_flag(metadata, "tokenizer.ggml.add_bos_token");
  v.add_eos = read_flag(metadata, "tokenizer.ggml.add_eos_token");
  v.add_space_prefix = read_flag(metadata, "tokenizer.ggml.add_space_prefix");
  const std::string size_key = metadata.string_or("general.architecture", "llama") + ".vocab_size";
  const uint64_t stated = metadata.u64_or(size_key, v.size());
  if (stated != v.size())
    fail(Errc::kCorrupt, "{}: key {}: expected {} as tokenizer.ggml.tokens has, found {}", v.source, size_key,
         v.size(), stated);
  return v;
}

}  // namespace butterfly::model
