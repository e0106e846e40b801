#include "tricky_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/rng.h"
#include "base/utf8.h"
#include "model/tokenizer/byte_level.h"
#include "model/tokenizer/vocabulary.h"

namespace butterfly::testing {
namespace {

constexpr const char* kFragments[] = {
    // words and contractions
    "the",
    "The",
    "THE",
    "tHe",
    "iPhone",
    "McDonald",
    "don't",
    "DON'T",
    "we'll",
    "WE'LL",
    "they've",
    "You'Re",
    "I'm",
    "it's",
    "he'd",
    "'s",
    "'S",
    "'",
    "''",
    "'tis",
    "o'clock",
    "l'eau",
    "rock'n'roll",
    "’s",
    "can’t",
    "x'y",
    "'llama",
    "s's",
    "a'lL",
    // numbers
    "0",
    "7",
    "42",
    "123",
    "1234",
    "12345",
    "123456",
    "1234567",
    "3.14159",
    "1,000,000",
    "1e-9",
    "0x1F",
    "²",
    "x²³",
    "½",
    "1½",
    "Ⅻ",
    "٣٤٥",
    "１２３４",
    "१२३४५",
    "①②",
    "12th",
    "a1b22c333d4444",
    "9½9",
    // white space
    " ",
    "  ",
    "   ",
    "    ",
    "     ",
    "         ",
    "\t",
    "\t\t",
    " \t ",
    "\n",
    "\n\n",
    "\n\n\n",
    "\r\n",
    "\r\n\r\n",
    " \n",
    "\n ",
    "  \n  ",
    "\r",
    "\v",
    "\f",
    "\xc2\xa0",
    "\xc2\xa0 ",
    "\xe3\x80\x80",
    "\xe2\x80\x83x",
    "\xe2\x80\xa8",
    "\xe2\x80\x89",
    "\xc2\x85",
    "\xe2\x80\x8b",
    // punctuation and symbols
    ".",
    ",",
    "...",
    "…",
    "!?",
    "?!\n",
    "--",
    "—",
    "(",
    ")",
    "[x]",
    "{}",
    "\"q\"",
    "“q”",
    "«a»",
    "a/b/c",
    "//",
    "/\n",
    "//\r\n",
    "\\n",
    "#tag",
    "@me",
    "$5",
    "€5",
    "£",
    "+=",
    "<=>",
    "^_^",
    "~",
    "|",
    "`code`",
    "&amp;",
    "%d",
    "*",
    "_under_score_",
    "a-b",
    "://",
    "。",
    "，",
    "、",
    "！",
    "「",
    "∑",
    "≠",
    "→",
    "°C",
    "©",
    "™",
    "№",
    "¿",
    "।",
    "۔",
    "،",
    "・",
    "ー",
    // letters with and without case
    "straße",
    "ÉCOLE",
    "naïve",
    "Ærø",
    "Ǆ",
    "ǅ",
    "ǆ",
    "ʰ",
    "ﬁ",
    "ª",
    "Привет",
    "ПРИВЕТ",
    "пРи",
    "Ωμέγα",
    "ΑΒΓ",
    "ςσ",
    "Ⴀა",
    "ԱԲգ",
    "İı",
    "ſ",
    "K",
    // scripts without case
    "你好",
    "世界",
    "中文字",
    "々",
    "〇",
    "日本",
    "ひらがな",
    "カタカナ",
    "ｶﾅ",
    "한국어",
    "ㄱㄴ",
    "ㄅㄆ",
    "ไทย",
    "ภาษา",
    "हिन्दी",
    "বাংলা",
    "தமிழ்",
    "العربية",
    "اَلسَّ",
    "עברית",
    "שָׁלוֹם",
    "မြန်မာ",
    "ខ្មែរ",
    "ລາວ",
    "አማርኛ",
    "𝒜𝓑",
    "𠀀𠀁",
    "豈",
    // marks and joined emoji
    "é",
    "ñ̃",
    "a̐éö̲",
    "̈",
    "x̂ŷ",
    "👍",
    "👍🏽",
    "👩‍👩‍👧‍👦",
    "🇩🇪",
    "❤️",
    "☃",
    "🦙🦙",
    // what single rows look for
    "<sentinel:12>",
    "<sentinel:>",
    "IMGIMGABCZ",
    "IMGIMGAZ",
    "IMGIMGABCDEZ",
    "<|end|>",
    "def f(x):\n\treturn x",
    "if (a<=b) {\n    ++i;\n}",
    "x = 'it'",
};

constexpr size_t kTexts = 400, kFragmentsMax = 14;
constexpr size_t kMerges = 4000;

// Byte pair encoding as learned: the most frequent pair first, of equals the one met first.
class Learner {
 public:
  int32_t symbol(const std::string& text) {
    const auto [at, added] = ids_.emplace(text, static_cast<int32_t>(texts.size()));
    if (added) texts.push_back(text);
    return at->second;
  }
  void add(std::vector<int32_t> sequence) { sequences_.push_back(std::move(sequence)); }
  // Writes pairs with " " between, as GGUF has them.
  void learn(size_t merge_count) {
    while (merges.size() < merge_count) {
      std::unordered_map<uint64_t, size_t> counts;
      uint64_t best = 0;
      size_t most = 1;  // what occurs once teaches nothing
      for (const auto& s : sequences_)
        for (size_t i = 0; i + 1 < s.size(); ++i) ++counts[key(s[i], s[i + 1])];
      for (const auto& s : sequences_)
        for (size_t i = 0; i + 1 < s.size(); ++i) {
          const uint64_t pair = key(s[i], s[i + 1]);
          if (counts[pair] > most) {
            most = counts[pair];
            best = pair;
          }
        }
      if (most == 1) return;
      const auto left = static_cast<int32_t>(best >> 32), right = static_cast<int32_t>(best & 0xffffffffu);
      const std::string a = texts[static_cast<size_t>(left)], b = texts[static_cast<size_t>(right)];
      merges.push_back(a + " " + b);
      const int32_t joined = symbol(a + b);
      for (auto& s : sequences_) join(s, left, right, joined);
    }
  }

  std::vector<std::string> texts, merges;

 private:
  static uint64_t key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  static void join(std::vector<int32_t>& s, int32_t left, int32_t right, int32_t joined) {
    size_t kept = 0;
    for (size_t i = 0; i < s.size(); ++i) {
      const bool match = i + 1 < s.size() && s[i] == left && s[i + 1] == right;
      s[kept++] = match ? joined : s[i];
      i += match;
    }
    s.resize(kept);
  }

  std::map<std::string, int32_t> ids_;
  std::vector<std::vector<int32_t>> sequences_;
};

// One symbol per byte.
void add_bytes(const std::string& text, Learner& learner) {
  std::vector<int32_t> sequence;
  for (const char c : text) sequence.push_back(learner.symbol(model::to_byte_letters({&c, 1})));
  learner.add(std::move(sequence));
}

// One symbol per character; lines are texts of their own.
void add_characters(const std::string& text, Learner& learner) {
  std::vector<int32_t> sequence;
  for (size_t at = 0; at < text.size();) {
    const size_t length = std::max<size_t>(utf8_length(std::string_view(text).substr(at, 4)), 1);
    const std::string character = text.substr(at, length);
    if (character == "\n") {
      learner.add(std::move(sequence));
      sequence.clear();
    } else {
      sequence.push_back(learner.symbol(character == " " ? std::string(model::kSpaceMark) : character));
    }
    at += length;
  }
  learner.add(std::move(sequence));
}

}  // namespace

std::vector<std::string> tricky_texts() {
  std::vector<std::string> texts;
  for (const char* fragment : kFragments) texts.emplace_back(fragment);
  constexpr uint64_t kSeed = 20261116;
  for (size_t i = 0; i < kTexts; ++i) {
    std::string text;
    const size_t count = 2 + random_u64(kSeed, i, 0) % (kFragmentsMax - 1);
    for (size_t f = 1; f <= count; ++f) text += kFragments[random_u64(kSeed, i, f) % std::size(kFragments)];
    texts.push_back(text);
  }
  return texts;
}

void add_learned_vocabulary(const std::vector<std::string>& texts, bool raw, model::Metadata& metadata) {
  using model::TokenType;
  Learner learner;
  std::vector<int32_t> types;
  if (raw) {
    for (int byte = 0; byte < 256; ++byte) learner.symbol(fmt::format("<0x{:02X}>", byte));
    types.resize(256, static_cast<int32_t>(TokenType::kByte));
    learner.symbol("\n");
    for (const std::string& text : texts) add_characters(text, learner);
  } else {
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      learner.symbol(model::to_byte_letters({&c, 1}));
    }
    for (const std::string& text : texts) add_bytes(text, learner);
  }
  learner.learn(kMerges);
  types.resize(learner.texts.size(), static_cast<int32_t>(TokenType::kNormal));
  const auto end = static_cast<uint32_t>(learner.texts.size());
  learner.symbol("<|endoftext|>");
  types.push_back(static_cast<int32_t>(TokenType::kControl));
  metadata.set("tokenizer.ggml.tokens", model::string_array(std::move(learner.texts)));
  metadata.set("tokenizer.ggml.token_type", model::i32_array(std::move(types)));
  metadata.set("tokenizer.ggml.merges", model::string_array(std::move(learner.merges)));
  metadata.set("tokenizer.ggml.bos_token_id", end);
  metadata.set("tokenizer.ggml.eos_token_id", end);
}

}  // namespace butterfly::testing
