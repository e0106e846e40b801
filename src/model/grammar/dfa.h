// Deterministic automata over bytes whose accepting states carry labels; product, complement, literals.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace butterfly::model::grammar {

// State 0 is dead: no text from there is accepted, and every state but it leads to an accepting one.
// Immutable once made.
struct Dfa {
  std::array<uint8_t, 256> class_of{};  // bytes that no state tells apart share a class
  uint32_t classes = 1;
  std::vector<uint32_t> next;   // [state, class]
  std::vector<uint32_t> label;  // [state]; 0: not accepting
  std::vector<uint8_t> sink;    // [state]; 1: every UTF-8 text from here is accepted, with one label
  uint32_t start = 0;
  uint64_t id = 0;  // of its own, for caches

  uint32_t step(uint32_t state, uint8_t byte) const { return next[state * classes + class_of[byte]]; }
  uint32_t run(uint32_t state, std::string_view text) const {
    for (const char c : text) state = step(state, static_cast<uint8_t>(c));
    return state;
  }
  uint32_t match(std::string_view text) const { return label[run(start, text)]; }
  size_t states() const { return label.size(); }
  bool empty() const { return start == 0; }
};

// Removes states that lead nowhere, renumbers the rest and finds sinks. Throws Error kOutOfMemory past the
// limits.
Dfa finished(Dfa dfa);

// All texts in UTF-8, label 1.
const Dfa& any_text();

// texts[i] gets label i + 1. Texts must differ.
Dfa literal_dfa(std::span<const std::string> texts);

struct DfaFactor {
  const Dfa* dfa = nullptr;
  bool required = true;  // false: the product lives on when this one is dead, with label 0 for it
};

// Runs the factors side by side; `label` gets the factors' labels and gives the product's. Throws Error
// kOutOfMemory past the limits.
Dfa product(std::span<const DfaFactor> factors,
            const std::function<uint32_t(std::span<const uint32_t>)>& label);

// Texts in UTF-8 of min to max characters.
Dfa length_dfa(uint64_t min, uint64_t max);

inline constexpr uint64_t kUnbounded = ~uint64_t{0};

}  // namespace butterfly::model::grammar
