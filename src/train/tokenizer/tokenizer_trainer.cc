#include "train/tokenizer/tokenizer_trainer.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "base/error.h"
#include "model/tokenizer/byte_level.h"
#include "model/tokenizer/vocabulary.h"

namespace butterfly::train {
namespace {

using Symbol = uint32_t;

uint64_t pair_key(Symbol left, Symbol right) { return uint64_t{left} << 32 | right; }

struct Word {
  std::vector<Symbol> symbols;
  uint64_t count;
};

struct Pair {
  uint64_t count = 0;
  std::vector<uint32_t> words;  // where it was seen; may name a word twice, or one that has it no more
};

// GPT-2's order: bytes that print as themselves first.
std::vector<std::string> byte_tokens() {
  std::vector<std::string> shown, others;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    const bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    (prints ? shown : others).push_back(text);
  }
  shown.insert(shown.end(), others.begin(), others.end());
  return shown;
}

// The state of the merging.
class Merger {
 public:
  explicit Merger(const std::unordered_map<std::string, uint64_t>& words) : tokens_(byte_tokens()) {
    Symbol of_byte[256];
    for (Symbol s = 0; s < 256; ++s) of_byte[static_cast<unsigned char>(tokens_[s][0])] = s;
    for (const auto& [text, count] : words) {
      Word word{{}, count};
      for (const char c : text) word.symbols.push_back(of_byte[static_cast<unsigned char>(c)]);
      words_.push_back(std::move(word));
    }
    for (uint32_t w = 0; w < words_.size(); ++w) {
      const Word& word = words_[w];
      for (size_t i = 1; i < word.symbols.size(); ++i)
        change(word.symbols[i - 1], word.symbols[i], static_cast<int64_t>(word.count), w);
    }
    for (const auto& [key, pair] : pairs_) heap_.push({pair.count, key, this});
  }

  // False when no pair is left.
  bool merge_next(std::vector<std::pair<std::string, std::string>>& merges) {
    while (!heap_.empty()) {
      const Candidate best = heap_.top();
      heap_.pop();
      const auto pair = pairs_.find(best.key);
      if (pair == pairs_.end() || pair->second.count == 0) continue;
      if (pair->second.count != best.count) {  // counted down since: back into the queue with its true count
        heap_.push({pair->second.count, best.key, this});
        continue;
      }
      const auto left = static_cast<Symbol>(best.key >> 32), right = static_cast<Symbol>(best.key);
      merges.emplace_back(tokens_[left], tokens_[right]);
      tokens_.push_back(tokens_[left] + tokens_[right]);
      join(left, right, static_cast<Symbol>(tokens_.size() - 1), std::move(pair->second.words));
      return true;
    }
    return false;
  }

  std::vector<std::string> take_tokens() { return std::move(tokens_); }

 private:
  struct Candidate {
    uint64_t count;
    uint64_t key;
    const Merger* merger;
    bool operator<(const Candidate& other) const {
      if (count != other.count) return count < other.count;
      const auto text = [](const Candidate& c) {
        return std::tie(c.merger->tokens_[c.key >> 32], c.merger->tokens_[static_cast<Symbol>(c.key)]);
      };
      return text(*this) < text(other);
    }
  };

  void change(Symbol left, Symbol right, int64_t by, uint32_t word) {
    Pair& pair = pairs_[pair_key(left, right)];
    pair.count += static_cast<uint64_t>(by);
    if (by > 0 && (pair.words.empty() || pair.words.back() != word)) pair.words.push_back(word);
  }

  void join(Symbol left, Symbol right, Symbol joint, std::vector<uint32_t> in_words) {
    std::sort(in_words.begin(), in_words.end());
    in_words.erase(std::unique(in_words.begin(), in_words.end()), in_words.end());
    std::vector<uint64_t> touched;
    for (const uint32_t w : in_words) join_in(words_[w], w, left, right, joint, touched);
    pairs_.erase(pair_key(left, right));
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (const uint64_t key : touched)
      if (const auto pair = pairs_.find(key); pair != pairs_.end())
        heap_.push({pair->second.count, key, this});
  }

  void join_in(Word& word, uint32_t index, Symbol left, Symbol right, Symbol joint,
               std::vector<uint64_t>& touched) {
    std::vector<Symbol>& s = word.symbols;
    const auto count = static_cast<int64_t>(word.count);
    size_t out = 0;
    for (size_t i = 0; i < s.size(); ++i) {
      if (i + 1 == s.size() || s[i] != left || s[i + 1] != right) {
        s[out++] = s[i];
        continue;
      }
      if (out > 0) {
        change(s[out - 1], left, -count, index);
        change(s[out - 1], joint, count, index);
        touched.push_back(pair_key(s[out - 1], joint));
      }
      if (i + 2 < s.size()) {
        change(right, s[i + 2], -count, index);
        change(joint, s[i + 2], count, index);
        touched.push_back(pair_key(joint, s[i + 2]));
      }
      s[out++] = joint;
      ++i;
    }
    s.resize(out);
  }

  std::vector<std::string> tokens_;
  std::vector<Word> words_;
  std::unordered_map<uint64_t, Pair> pairs_;
  std::priority_queue<Candidate> heap_;
};

}  // namespace

BpeTrainer::BpeTrainer(BpeOptions options)
    : options_(std::move(options)),
      pre_(
          [&]() -> const model::PreTokenizerRow& {
            const model::PreTokenizerRow* row = model::find_pre_tokenizer(options_.pre_tokenizer);
            if (row == nullptr || row->raw_text)
              fail(Errc::kInvalidArgument, "no pre-tokenizer '{}' for byte-level BPE",
                   options_.pre_tokenizer);
            return *row;
          }(),
          false) {
  if (options_.vocabulary < 256 + options_.special.size())
    fail(Errc::kInvalidArgument, "a vocabulary of {} has no room for 256 bytes and {} special tokens",
         options_.vocabulary, options_.special.size());
}

void BpeTrainer::add_text(std::string_view text) {
  model::PreTokenizer::Session session(pre_);
  while (!text.empty()) {
    size_t end = text.size(), next = text.size();
    for (const std::string& special : options_.special) {
      const size_t at = text.find(special);
      if (at < end) {
        end = at;
        next = at + special.size();
      }
    }
    session.split(text.substr(0, end), [&](std::string_view word) { ++words_[std::string(word)]; });
    text.remove_prefix(next);
  }
}

BpeVocabulary BpeTrainer::train() const {
  BpeVocabulary vocabulary{options_.pre_tokenizer, options_.special, {}, {}};
  Merger merger(words_);
  const size_t wanted = options_.vocabulary - 256 - options_.special.size();
  while (vocabulary.merges.size() < wanted && merger.merge_next(vocabulary.merges)) {
  }
  vocabulary.tokens = merger.take_tokens();
  return vocabulary;
}

void add_tokenizer_metadata(const BpeVocabulary& vocabulary, const SpecialRoles& roles,
                            model::Metadata& metadata) {
  std::vector<std::string> texts = vocabulary.special, merges;
  std::vector<int32_t> types(texts.size(), static_cast<int32_t>(model::TokenType::kControl));
  for (const std::string& token : vocabulary.tokens) texts.push_back(model::to_byte_letters(token));
  types.resize(texts.size(), static_cast<int32_t>(model::TokenType::kNormal));
  for (const auto& [left, right] : vocabulary.merges)
    merges.push_back(model::to_byte_letters(left) + " " + model::to_byte_letters(right));
  metadata.set("tokenizer.ggml.model", std::string("gpt2"));
  metadata.set("tokenizer.ggml.pre", vocabulary.pre_tokenizer);
  metadata.set("tokenizer.ggml.tokens", model::string_array(std::move(texts)));
  metadata.set("tokenizer.ggml.token_type", model::i32_array(std::move(types)));
  metadata.set("tokenizer.ggml.merges", model::string_array(std::move(merges)));
  const auto role = [&](const char* key, const std::string& text) {
    if (text.empty()) return;
    const auto at = std::find(vocabulary.special.begin(), vocabulary.special.end(), text);
    if (at == vocabulary.special.end())
      fail(Errc::kInvalidArgument, "'{}' is not among the special tokens", text);
    metadata.set(key, static_cast<uint32_t>(at - vocabulary.special.begin()));
  };
  role("tokenizer.ggml.bos_token_id", roles.bos);
  role("tokenizer.ggml.eos_token_id", roles.eos);
  role("tokenizer.ggml.padding_token_id", roles.padding);
  metadata.set("tokenizer.ggml.add_bos_token", !roles.bos.empty());
  metadata.set("tokenizer.ggml.add_eos_token", false);
}

}  // namespace butterfly::train
