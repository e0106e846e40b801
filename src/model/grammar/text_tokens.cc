// How tokens fit into a string from a state of its automaton.
#include <algorithm>

#include "model/grammar/code_points.h"
#include "model/grammar/json_mask.h"
#include "model/sampling/token_constraint.h"

namespace butterfly::model::grammar {

namespace {

struct Cursor {
  uint32_t state = 0;
  StringEscape escape;
};

bool not_dead(uint32_t state) { return state != 0; }

// One byte of content; false if nothing fits any more.
bool advance(const Dfa& dfa, Cursor& at, uint8_t byte) {
  if (!at.escape.active()) {
    if (byte == '"' || byte < 0x20) return false;
    if (byte != '\\') {
      at.state = dfa.step(at.state, byte);
      return at.state != 0;
    }
    at.escape.begin();
  } else {
    uint32_t character = 0;
    const auto result = at.escape.feed(byte, character);
    if (result == StringEscape::Result::kBad) return false;
    if (result == StringEscape::Result::kCharacter) {
      std::string bytes;
      append_utf8(character, bytes);
      at.state = dfa.run(at.state, bytes);
      return at.state != 0;
    }
  }
  return at.escape.can_end(
      [&](uint32_t first, uint32_t last) { return reaches(dfa, at.state, first, last, not_dead); });
}

// True if most letters lead to where anything goes. Then it is cheaper to take all content and correct it
// along the few paths that do not.
bool mostly_free(const Dfa& dfa, uint32_t state) {
  int free = 0;
  for (char c = 'a'; c <= 'z'; ++c) free += dfa.sink[dfa.step(state, static_cast<uint8_t>(c))];
  return free > 13;
}

}  // namespace

TextTokenCache::TextTokenCache(std::shared_ptr<const TokenIndex> index, size_t entries_max)
    : index_(std::move(index)), entries_max_(entries_max) {}

std::shared_ptr<const TextTokens> TextTokenCache::get(const Dfa& dfa, uint32_t state, bool plain) {
  return get_or(dfa.id, state, plain, [&] { return compute(dfa, state, plain); });
}

TextTokens TextTokenCache::compute(const Dfa& dfa, uint32_t state, bool plain) const {
  TextTokens out;
  const auto& exits = index_->exits();
  if (dfa.sink[state]) {
    out.content = index_->content(plain);
    out.exit_labels.reserve(exits.size());
    for (const TokenIndex::Exit& exit : exits)
      out.exit_labels.push_back(exit.plain || !plain ? dfa.label[state] : 0);
    return out;
  }
  const TokenTrie& trie = index_->trie();
  const bool correct = mostly_free(dfa, state);
  if (correct)
    out.content = index_->content(plain);
  else
    out.content.assign(mask_words(index_->vocab_size()), 0);
  std::vector<Cursor> cursors(trie.depth_max() + 1);
  cursors[0].state = state;
  cursors[0].escape.plain = plain;
  const auto nodes = trie.nodes();
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    Cursor& to = cursors[node.depth + 1u];
    to = cursors[node.depth];
    if (!advance(dfa, to, node.byte)) {
      if (correct)
        for (const uint32_t token : trie.values_below(i)) clear_bit(out.content, token);
      i = node.skip;
    } else if (correct && dfa.sink[to.state] && !to.escape.active()) {
      i = node.skip;  // taken already
    } else {
      for (const uint32_t token : trie.values_at(node)) set_bit(out.content, token);
      ++i;
    }
  }
  out.exit_labels.reserve(exits.size());
  for (const TokenIndex::Exit& exit : exits) {
    Cursor at{state, {}};
    at.escape.plain = plain;
    const std::string_view content = index_->piece(exit.token).substr(0, exit.content_bytes);
    bool good = true;
    for (size_t i = 0; good && i < content.size(); ++i)
      good = advance(dfa, at, static_cast<uint8_t>(content[i]));
    out.exit_labels.push_back(good ? dfa.label[at.state] : 0);
  }
  return out;
}

}  // namespace butterfly::model::grammar
