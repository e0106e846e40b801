// Which tokens may follow in a JSON text under a schema.
//
// Inside of strings nearly every token fits, and only there masks are large. So tokens are sorted by how they
// fit into a string: those that stay inside depend on the string's automaton alone and are remembered per
// state; those that end it are grouped by what comes behind the quote, and each group is tried once. All
// other places allow few tokens, which a walk over the vocabulary's tree finds.
#pragma once
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <tuple>
#include <vector>

#include "model/grammar/json_state.h"
#include "model/grammar/token_index.h"

namespace butterfly::model::grammar {

// How the tokens of a vocabulary fit into a string from one state of its automaton.
struct TextTokens {
  TokenBits content;                  // stay inside
  std::vector<uint32_t> exit_labels;  // [exit]: the label its content ends in, 0: does not fit
};

// The last such lists that were needed, for all grammars of a vocabulary. Thread-safe.
class TextTokenCache {
 public:
  explicit TextTokenCache(std::shared_ptr<const TokenIndex> index, size_t entries_max = 512);
  // `plain`: as in StringEscape.
  std::shared_ptr<const TextTokens> get(const Dfa& dfa, uint32_t state, bool plain);
  // In free text, `matched` bytes into the envelope's begin: made by `make` when it is not there.
  template <typename Make>
  std::shared_ptr<const TextTokens> get_or(uint64_t id, uint32_t state, bool plain, Make&& make);

 private:
  using Key = std::tuple<uint64_t, uint32_t, bool>;
  struct Entry {
    std::shared_ptr<const TextTokens> tokens;
    std::list<Key>::iterator used;
  };
  TextTokens compute(const Dfa& dfa, uint32_t state, bool plain) const;

  std::shared_ptr<const TokenIndex> index_;
  size_t entries_max_;
  std::mutex mutex_;
  std::map<Key, Entry> entries_;
  std::list<Key> order_;  // latest first
};

template <typename Make>
std::shared_ptr<const TextTokens> TextTokenCache::get_or(uint64_t id, uint32_t state, bool plain,
                                                         Make&& make) {
  const Key key{id, state, plain};
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = entries_.find(key); found != entries_.end()) {
      order_.splice(order_.begin(), order_, found->second.used);
      return found->second.tokens;
    }
  }
  // Made outside of the lock: two threads may both do it, and get the same.
  auto made = std::make_shared<const TextTokens>(make());
  const std::scoped_lock lock(mutex_);
  const auto [found, is_new] = entries_.try_emplace(key);
  if (is_new) {
    order_.push_front(key);
    found->second = {made, order_.begin()};
    if (entries_.size() > entries_max_) {
      entries_.erase(order_.back());
      order_.pop_back();
    }
  }
  return made;
}

// Masks of one schema over one vocabulary. Shares matcher, index and cache with the constraints made from it.
// Any thread: only the cache changes, and that has a lock.
class JsonMasker {
 public:
  JsonMasker(std::shared_ptr<const JsonMatcher> matcher, std::shared_ptr<const TokenIndex> index,
             std::shared_ptr<TextTokenCache> cache);

  // Adds the tokens that may follow to `bits`, tokens that end a text included. Throws Error kOutOfMemory
  // when that takes more than kMaskWorkMax.
  void mask(const JsonState& state, std::span<uint64_t> bits) const;
  const JsonMatcher& matcher() const { return *matcher_; }
  const TokenIndex& index() const { return *index_; }

 private:
  class Work;  // of one mask
  bool text_mask(const JsonState& state, std::span<uint64_t> bits, Work& work) const;
  void free_mask(const JsonState& state, std::span<uint64_t> bits, Work& work) const;
  bool fits(JsonState state, std::string_view piece, Work& work) const;
  // [exit]: 1 if what follows it depends on the whole text of the key. Empty: none.
  std::vector<uint8_t> exits_apart(const JsonState& state) const;
  // Which rests may stand behind a string that ends so.
  std::vector<uint8_t> rests_after(const JsonState& state, std::span<const uint32_t> labels,
                                   Work& work) const;

  std::shared_ptr<const JsonMatcher> matcher_;
  std::shared_ptr<const TokenIndex> index_;
  std::shared_ptr<TextTokenCache> cache_;
  uint64_t id_;  // of this grammar, for the cache
};

}  // namespace butterfly::model::grammar
