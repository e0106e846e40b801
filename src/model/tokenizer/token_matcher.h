// Finds tokens that are matched literally in a text (user-defined and control tokens), the longest at each
// place.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "model/tokenizer/flat_map.h"

namespace butterfly::model {

// A trie over bytes. A search costs one table look-up per byte where no token begins. One thread adds; then
// any may search.
class TokenMatcher {
 public:
  struct Match {
    size_t begin = std::string_view::npos;  // npos: none
    size_t length = 0;
    int32_t id = -1;
  };

  void add(std::string_view text, int32_t id);  // empty texts are left out
  bool empty() const { return node_count_ == 1; }
  // The leftmost match at or after `from`; of those that begin there the longest.
  Match find(std::string_view text, size_t from) const;

  // Calls found(length, id) for every token that `text` begins with, the shortest first.
  template <typename Found>
  void prefixes(std::string_view text, const Found& found) const {
    int32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      node = next_.find(edge(static_cast<uint32_t>(node), static_cast<unsigned char>(text[i])));
      if (node < 0) return;
      if (const int32_t id = ids_.find(static_cast<uint64_t>(node)); id >= 0) found(i + 1, id);
    }
  }

 private:
  static uint64_t edge(uint32_t node, unsigned char byte) { return uint64_t{node} << 8 | byte; }

  std::array<bool, 256> begins_{};  // some token begins with this byte
  FlatMap next_;                    // (node, byte) -> node
  FlatMap ids_;                     // node -> token that ends there
  uint32_t node_count_ = 1;
};

}  // namespace butterfly::model
