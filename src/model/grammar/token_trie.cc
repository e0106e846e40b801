#include "model/grammar/token_trie.h"

#include <algorithm>

namespace butterfly::model::grammar {

TokenTrie::TokenTrie(std::vector<std::pair<std::string_view, uint32_t>> entries) {
  std::sort(entries.begin(), entries.end());
  values_.reserve(entries.size());
  std::vector<size_t> path;  // nodes from the root to the last one
  std::string_view last;
  const auto leave = [&](size_t depth) {
    while (path.size() > depth) {
      nodes_[path.back()].skip = static_cast<uint32_t>(nodes_.size());
      path.pop_back();
    }
  };
  for (const auto& [text, value] : entries) {
    if (text.empty() || text.size() > 0xFFFF) continue;
    const size_t common = static_cast<size_t>(
        std::mismatch(text.begin(), text.end(), last.begin(), last.end()).first - text.begin());
    leave(std::min(common, path.size()));
    for (size_t i = path.size(); i < text.size(); ++i) {
      path.push_back(nodes_.size());
      nodes_.push_back({static_cast<uint8_t>(text[i]), static_cast<uint16_t>(i), 0,
                        static_cast<uint32_t>(values_.size()), 0});
    }
    values_.push_back(value);
    ++nodes_[path.back()].count;
    depth_max_ = std::max(depth_max_, text.size());
    last = text;
  }
  leave(0);
}

std::span<const uint32_t> TokenTrie::values_below(size_t node) const {
  const uint32_t behind = nodes_[node].skip;
  const size_t end = behind < nodes_.size() ? nodes_[behind].first : values_.size();
  return std::span(values_).subspan(nodes_[node].first, end - nodes_[node].first);
}

}  // namespace butterfly::model::grammar
