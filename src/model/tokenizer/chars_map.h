// SentencePiece's precompiled character map: which stretches of a text are replaced by what before unigram.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace butterfly::model {

// A u32 with the size of a double-array trie (darts-clone), the trie, then the replacements, each ended by a
// zero byte. Any bytes are safe to use: every index is checked. Immutable.
class CharsMap {
 public:
  CharsMap() = default;  // changes nothing
  // Throws Error kCorrupt.
  CharsMap(std::vector<uint8_t> bytes, const std::string& source);

  struct Prefix {
    std::string_view replacement;
    size_t length;  // bytes of the text that it replaces; 0: the text is not changed here
  };
  // The longest stretch at the front of `text` that is in the map.
  Prefix find(std::string_view text) const;

 private:
  std::vector<uint32_t> trie_;
  std::string replacements_;
};

}  // namespace butterfly::model
