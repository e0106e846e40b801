#include "model/synthetic/synthetic_vocabulary.h"

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/tokenizer/vocabulary.h"

namespace butterfly::model {
namespace {

constexpr uint32_t kVocabularyMax = 2'000'000;
constexpr std::string_view kConsonants = "tnslrdmkpvbgfhwjzcyx";
constexpr std::string_view kVowels = "aeiou";
constexpr std::string_view kPrintable =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?'\"-:;()";

// Collects tokens until there are enough. A score is minus the rank, as SentencePiece's BPE gives them: what
// stands earlier is merged earlier.
class Builder {
 public:
  explicit Builder(uint32_t size) : size_(size) {}
  bool full() const { return texts.size() >= size_; }
  void add(std::string text, TokenType type = TokenType::kNormal) {
    if (full()) return;
    const bool normal = type == TokenType::kNormal;
    scores.push_back(normal ? -static_cast<float>(texts.size()) : 0.0f);
    texts.push_back(std::move(text));
    types.push_back(static_cast<int32_t>(type));
  }

  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<int32_t> types;

 private:
  uint32_t size_;
};

// Each longer token is a shorter one and a syllable, so that merging can reach it.
void add_words(Builder& to) {
  std::vector<std::string> syllables;
  for (const char consonant : kConsonants) {
    for (const char vowel : kVowels) syllables.push_back({consonant, vowel});
  }
  for (const std::string& syllable : syllables) to.add(syllable);
  for (const std::string& syllable : syllables) to.add(std::string(kSpaceMark) + syllable);
  std::vector<std::string> stems = syllables;
  while (!to.full()) {
    std::vector<std::string> longer;
    for (const std::string& stem : stems) {
      for (const std::string& syllable : syllables) {
        if (to.full()) return;
        longer.push_back(stem + syllable);
        to.add(longer.back());
        to.add(std::string(kSpaceMark) + longer.back());
      }
    }
    stems = std::move(longer);
  }
}

}  // namespace

void add_synthetic_vocabulary(Metadata& metadata, uint32_t size) {
  if (size < kSyntheticVocabularyMin || size > kVocabularyMax) {
    fail(Errc::kInvalidArgument, "vocabulary of {} tokens: expected {} to {}", size, kSyntheticVocabularyMin,
         kVocabularyMax);
  }
  Builder builder(size);
  builder.add("<unk>", TokenType::kUnknown);
  builder.add("<s>", TokenType::kControl);
  builder.add("</s>", TokenType::kControl);
  for (int byte = 0; byte < 256; ++byte) builder.add(fmt::format("<0x{:02X}>", byte), TokenType::kByte);
  builder.add(std::string(kSpaceMark));
  for (const char c : kPrintable) builder.add(std::string(1, c));
  add_words(builder);

  metadata.set("tokenizer.ggml.model", std::string("llama"));
  metadata.set("tokenizer.ggml.tokens", string_array(std::move(builder.texts)));
  metadata.set("tokenizer.ggml.scores", f32_array(std::move(builder.scores)));
  metadata.set("tokenizer.ggml.token_type", i32_array(std::move(builder.types)));
  metadata.set("tokenizer.ggml.unknown_token_id", uint32_t{0});
  metadata.set("tokenizer.ggml.bos_token_id", uint32_t{1});
  metadata.set("tokenizer.ggml.eos_token_id", uint32_t{2});
  metadata.set("tokenizer.ggml.add_bos_token", true);
  metadata.set("tokenizer.ggml.add_eos_token", false);
}

}  // namespace butterfly::model
