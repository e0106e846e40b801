#include "model/tokenizer/chars_map.h"

#include <cstring>

#include "base/error.h"

namespace butterfly::model {
namespace {

// A unit of darts-clone: label in bits 0-7 and 31, has-leaf in bit 8, offset in bits 10-30, shifted by 8 if
// bit 9 is set; a leaf holds its value in bits 0-30.
uint32_t label(uint32_t unit) { return unit & (uint32_t{1} << 31 | 0xff); }
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t offset(uint32_t unit) { return unit >> 10 << ((unit & uint32_t{1} << 9) >> 6); }
uint32_t value(uint32_t unit) { return unit & 0x7fffffff; }

}  // namespace

CharsMap::CharsMap(std::vector<uint8_t> bytes, const std::string& source) {
  if (bytes.empty()) return;
  uint32_t size = 0;
  if (bytes.size() >= sizeof(size)) std::memcpy(&size, bytes.data(), sizeof(size));
  if (size == 0 || size % 4 != 0 || size > bytes.size() - sizeof(size) || bytes.back() != 0)
    fail(Errc::kCorrupt,
         "{}: character map: expected a trie and replacements in {} bytes, found a trie of {}", source,
         bytes.size(), size);
  trie_.resize(size / 4);
  std::memcpy(trie_.data(), bytes.data() + sizeof(size), size);
  replacements_.assign(bytes.begin() + static_cast<std::ptrdiff_t>(sizeof(size) + size), bytes.end());
}

CharsMap::Prefix CharsMap::find(std::string_view text) const {
  Prefix longest{{}, 0};
  if (trie_.empty()) return longest;
  size_t node = offset(trie_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= trie_.size() || label(trie_[node]) != byte) break;
    const uint32_t unit = trie_[node];
    node ^= offset(unit);
    if (!has_leaf(unit)) continue;
    if (node >= trie_.size() || value(trie_[node]) >= replacements_.size()) break;
    longest = {replacements_.c_str() + value(trie_[node]), i + 1};  // the last byte is zero
  }
  return longest;
}

}  // namespace butterfly::model
