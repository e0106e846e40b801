#include "model/grammar/json_mask.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "model/grammar/limits.h"
#include "model/sampling/token_constraint.h"

namespace butterfly::model::grammar {

// Steps of the matcher, each weighed by the alternatives it follows.
class JsonMasker::Work {
 public:
  void spend(const JsonState& state) {
    left_ -= static_cast<int64_t>(1 + state.threads.size() + state.frame->alternatives.size() +
                                  state.frame->pending.size());
    if (left_ < 0)
      fail(Errc::kOutOfMemory,
           "the schema leaves so many ways open that finding the tokens that may follow takes too long; give "
           "fewer alternatives");
  }

 private:
  int64_t left_ = kMaskWorkMax;
};

JsonMasker::JsonMasker(std::shared_ptr<const JsonMatcher> matcher, std::shared_ptr<const TokenIndex> index,
                       std::shared_ptr<TextTokenCache> cache)
    : matcher_(std::move(matcher)), index_(std::move(index)), cache_(std::move(cache)) {
  // An automaton of its own gives an id that no other one has.
  id_ = finished(literal_dfa({})).id;
}

void JsonMasker::mask(const JsonState& state, std::span<uint64_t> bits) const {
  if (matcher_->can_end(state))
    for (const uint32_t token : index_->ends()) set_bit(bits, token);
  if (state.phase == JsonPhase::kDone) return;
  Work work;
  if (state.phase == JsonPhase::kFree) return free_mask(state, bits, work);
  if ((state.phase == JsonPhase::kString || state.phase == JsonPhase::kKey) && text_mask(state, bits, work))
    return;
  std::vector<JsonState> states{state};
  walk(
      index_->trie(), states,
      [&](JsonState& to, const JsonState& from, uint8_t byte) {
        work.spend(from);
        to = from;
        return matcher_->step(to, byte);
      },
      [&](const TokenTrie::Node& node, const JsonState&) {
        for (const uint32_t token : index_->trie().values_at(node)) set_bit(bits, token);
      });
}

bool JsonMasker::text_mask(const JsonState& state, std::span<uint64_t> bits, Work& work) const {
  const bool plain = matcher_->plain_escapes();
  if (state.escape.active() || state.tail > 0) return false;
  struct Part {
    std::shared_ptr<const TextTokens> tokens;  // null: any content
    uint64_t min = 0, max = kUnbounded;        // characters that may still come
  };
  std::vector<Part> parts;
  for (const JsonThread& thread : state.threads) {
    Part part;
    if (state.phase == JsonPhase::kKey) {
      // Where keys may run out, what stays inside depends on the keys seen so far.
      if (!JsonMatcher::key_is_open(state.frame->alternatives[thread.who])) return false;
      part.tokens = cache_->get(*thread.dfa, thread.state, plain);
    } else if (!thread.shape->free || thread.dfa != thread.shape->dfa.get()) {
      // An automaton that leaves out some texts does not count.
      if (thread.shape->min_length > 0 || thread.shape->max_length != kUnbounded) return false;
      part.tokens = cache_->get(*thread.dfa, thread.state, plain);
    } else {
      const uint64_t max = thread.shape->max_length, min = thread.shape->min_length;
      part.min = min > state.characters ? min - state.characters : 0;
      part.max = max == kUnbounded ? kUnbounded : max - state.characters;
    }
    parts.push_back(std::move(part));
  }
  for (const Part& part : parts) {
    const auto counted = part.tokens ? nullptr : index_->content_up_to(part.max, plain);
    const TokenBits& content = part.tokens ? part.tokens->content : *counted;
    for (size_t w = 0; w < bits.size(); ++w) bits[w] |= content[w];
  }

  // Exits that leave the threads with the same labels share what may come behind them.
  std::unordered_map<uint64_t, uint32_t> groups;  // (group of the threads before, label) -> group
  std::vector<std::vector<uint8_t>> rests{{}};
  std::vector<uint8_t> known{0};
  std::vector<uint32_t> labels(parts.size());
  uint32_t group_count = 1;
  const auto& exits = index_->exits();
  const std::vector<uint8_t> apart = exits_apart(state);
  for (size_t e = 0; e < exits.size(); ++e) {
    if (plain && !exits[e].plain) continue;
    uint32_t group = 0;
    bool any = false;
    for (size_t i = 0; i < parts.size(); ++i) {
      const Part& part = parts[i];
      labels[i] = part.tokens ? part.tokens->exit_labels[e]
                              : exits[e].characters >= part.min && exits[e].characters <= part.max;
      any |= labels[i] != 0;
      if (parts.size() == 1) {
        group = labels[i];
        group_count = std::max(group_count, group + 1);
      } else {
        const auto [found, is_new] = groups.try_emplace(uint64_t{group} << 32 | labels[i], group_count);
        if (is_new) ++group_count;
        group = found->second;
      }
    }
    if (!any) continue;
    if (state.frame->recorded || (!apart.empty() && apart[e])) {
      // What comes behind depends on the text itself: whether it repeats an item, or a name.
      if (fits(state, index_->piece(exits[e].token), work)) set_bit(bits, exits[e].token);
      continue;
    }
    if (rests.size() < group_count) {
      rests.resize(group_count);
      known.resize(group_count, 0);
    }
    if (!known[group]) {
      known[group] = 1;
      rests[group] = rests_after(state, labels, work);
    }
    if (rests[group][exits[e].rest]) set_bit(bits, exits[e].token);
  }
  return true;
}

std::vector<uint8_t> JsonMasker::exits_apart(const JsonState& state) const {
  if (state.phase != JsonPhase::kKey || !state.frame->names) return {};
  std::vector<uint8_t> apart(index_->exits().size(), 0);
  for (const uint32_t exit : index_->odd_exits()) apart[exit] = 1;
  for (const std::string& name : state.frame->names->beginning_with(state.key))
    for (const uint32_t exit : index_->exits_with(std::string_view(name).substr(state.key.size())))
      apart[exit] = 1;
  return apart;
}

bool JsonMasker::fits(JsonState state, std::string_view piece, Work& work) const {
  for (const char c : piece) {
    work.spend(state);
    if (!matcher_->step(state, static_cast<uint8_t>(c))) return false;
  }
  return true;
}

std::vector<uint8_t> JsonMasker::rests_after(const JsonState& state, std::span<const uint32_t> labels,
                                             Work& work) const {
  std::vector<uint8_t> good(index_->rest_count(), 0);
  std::vector<JsonState> states{state};
  states[0].characters = kUnbounded;  // the labels say already that the length fits
  states[0].key_unknown = true;
  if (!matcher_->close(states[0], labels)) return good;
  good[0] = 1;
  walk(
      index_->rests(), states,
      [&](JsonState& to, const JsonState& from, uint8_t byte) {
        work.spend(from);
        to = from;
        return matcher_->step(to, byte);
      },
      [&](const TokenTrie::Node& node, const JsonState&) {
        for (const uint32_t rest : index_->rests().values_at(node)) good[rest] = 1;
      });
  return good;
}

// Every token, but for those that hold the begin of the envelope and go on wrongly.
void JsonMasker::free_mask(const JsonState& state, std::span<uint64_t> bits, Work& work) const {
  const auto tokens = cache_->get_or(id_, state.text_at, matcher_->plain_escapes(), [&] {
    TextTokens made;
    made.content.assign(mask_words(index_->vocab_size()), 0);
    const TokenTrie& trie = index_->trie();
    struct Place {
      uint32_t matched = 0;
      bool inside = false;
      JsonState state;
    };
    std::vector<Place> places(1);
    places[0].matched = state.text_at;
    walk(
        trie, places,
        [&](Place& to, const Place& from, uint8_t byte) {
          to.inside = from.inside;
          if (from.inside) {
            work.spend(from.state);
            to.state = from.state;
            return matcher_->step(to.state, byte);
          }
          to.matched = matcher_->free_step(from.matched, byte);
          if (to.matched == matcher_->envelope().begin.size()) {
            to.inside = true;
            to.state = state;
            to.state.text_at = from.matched;
            return matcher_->step(to.state, byte);
          }
          return true;
        },
        [&](const TokenTrie::Node& node, const Place&) {
          for (const uint32_t token : trie.values_at(node)) set_bit(made.content, token);
        });
    return made;
  });
  for (size_t w = 0; w < bits.size(); ++w) bits[w] |= tokens->content[w];
}

}  // namespace butterfly::model::grammar
