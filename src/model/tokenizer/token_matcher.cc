#include "model/tokenizer/token_matcher.h"

namespace butterfly::model {

void TokenMatcher::add(std::string_view text, int32_t id) {
  if (text.empty()) return;
  begins_[static_cast<unsigned char>(text[0])] = true;
  uint32_t node = 0;
  for (const char c : text) {
    const uint64_t key = edge(node, static_cast<unsigned char>(c));
    int32_t next = next_.find(key);
    if (next < 0) {
      next = static_cast<int32_t>(node_count_++);
      next_.set(key, next);
    }
    node = static_cast<uint32_t>(next);
  }
  ids_.set(node, id);
}

TokenMatcher::Match TokenMatcher::find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<unsigned char>(text[begin])]) continue;
    Match longest;
    int32_t node = 0;
    for (size_t i = begin; i < text.size(); ++i) {
      node = next_.find(edge(static_cast<uint32_t>(node), static_cast<unsigned char>(text[i])));
      if (node < 0) break;
      const int32_t id = ids_.find(static_cast<uint64_t>(node));
      if (id >= 0) longest = {begin, i + 1 - begin, id};
    }
    if (longest.id >= 0) return longest;
  }
  return {};
}

}  // namespace butterfly::model
