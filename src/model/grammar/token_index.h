// A vocabulary prepared for masks: its byte strings as a tree, and how they fit into JSON strings.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/grammar/token_trie.h"
#include "model/tokenizer/tokenizer.h"

namespace butterfly::model::grammar {

using TokenBits = std::vector<uint64_t>;
inline void set_bit(std::span<uint64_t> bits, uint32_t token) {
  bits[token / 64] |= uint64_t{1} << (token % 64);
}
inline void clear_bit(std::span<uint64_t> bits, uint32_t token) {
  bits[token / 64] &= ~(uint64_t{1} << (token % 64));
}

// Immutable, but for masks made on first use, which a lock guards.
class TokenIndex {
 public:
  // A token that ends a JSON string: content, a quote, and a rest behind it.
  struct Exit {
    uint32_t token = 0;
    uint16_t content_bytes = 0;
    uint16_t characters = 0;  // of the content
    uint32_t rest = 0;        // value in rests()
    bool plain = true;        // escapes only what must be escaped
  };

  explicit TokenIndex(const Tokenizer& tokenizer);
  // From the bytes of each token (empty: never allowed by its bytes) and the tokens that end a text.
  TokenIndex(std::vector<std::string> pieces, std::vector<uint32_t> ends);

  size_t vocab_size() const { return pieces_.size(); }
  std::string_view piece(uint32_t token) const { return pieces_[token]; }
  bool ends_text(uint32_t token) const { return ends_text_[token]; }
  const std::vector<uint32_t>& ends() const { return ends_; }
  const TokenTrie& trie() const { return trie_; }
  // Every character can be written, byte by byte if need be: then whatever text the rules allow can be.
  bool spells_everything() const { return spells_everything_; }

  // Tokens that stay inside of a string that may be anything: all bytes are content. `plain`: as in
  // StringEscape.
  const TokenBits& content(bool plain) const { return plain ? plain_content_ : content_; }
  // Those of them with at most so many characters, begun ones included.
  std::shared_ptr<const TokenBits> content_up_to(uint64_t characters, bool plain) const;
  const std::vector<Exit>& exits() const { return exits_; }
  // Indices of the exits with this content, which has no escapes.
  std::span<const uint32_t> exits_with(std::string_view content) const;
  // And of those whose content has escapes, or which go on to where another string may begin.
  const std::vector<uint32_t>& odd_exits() const { return odd_exits_; }
  // What is behind the quote in `exits`, each text once.
  const TokenTrie& rests() const { return rests_; }
  size_t rest_count() const { return rest_count_; }  // rest 0 is the empty one, which the tree leaves out

 private:
  void build();
  void sort_into_strings();

  std::vector<std::string> pieces_;
  std::vector<uint32_t> ends_;
  std::vector<bool> ends_text_;
  bool spells_everything_ = false;
  TokenTrie trie_;
  TokenBits content_, plain_content_;
  std::vector<std::pair<uint32_t, uint32_t>> content_lengths_;  // (characters, token), sorted
  std::vector<Exit> exits_;
  std::unordered_map<std::string_view, std::vector<uint32_t>> exits_by_content_;
  std::vector<uint32_t> odd_exits_;
  size_t rest_count_ = 0;
  TokenTrie rests_;

  mutable std::mutex mutex_;
  mutable std::map<std::pair<uint64_t, bool>, std::shared_ptr<const TokenBits>> by_length_;
};

}  // namespace butterfly::model::grammar
