#include "model/grammar/dfa_counts.h"

#include <array>

namespace butterfly::model::grammar {

namespace {

// Adds the states that lead to those that are marked.
void mark_before(const Dfa& dfa, std::vector<uint8_t>& marked) {
  // From the back: most edges go to states that were found later.
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t q = dfa.states() - 1; q > 0; --q)
      for (size_t c = 0; c < dfa.classes && !marked[q]; ++c)
        if (marked[dfa.next[q * dfa.classes + c]]) marked[q] = changed = true;
  }
}

uint64_t plus(uint64_t a, uint64_t b) { return a > kUnbounded - b ? kUnbounded : a + b; }
uint64_t times(uint64_t a, uint64_t b) { return a != 0 && b > kUnbounded / a ? kUnbounded : a * b; }

}  // namespace

std::vector<uint64_t> text_counts(const Dfa& dfa, const LabelTest& wanted) {
  const size_t states = dfa.states(), classes = dfa.classes;
  std::vector<uint8_t> leads(states, 0), endless(states, 0);
  for (size_t q = 1; q < states; ++q) {
    leads[q] = dfa.label[q] != 0 && wanted(dfa.label[q]);
    endless[q] = leads[q] && dfa.sink[q];
  }
  mark_before(dfa, leads);
  mark_before(dfa, endless);
  std::vector<uint64_t> counts(states, 0);
  for (size_t q = 1; q < states; ++q)
    if (leads[q]) counts[q] = kUnbounded;
  if (leads == endless) return counts;  // the common case
  std::vector<uint64_t> bytes_of(classes, 0);
  for (const uint8_t c : dfa.class_of) ++bytes_of[c];
  // Edges among states that lead on, backwards. A state whose successors are all counted can be counted;
  // those that never can stand on a circle or before one.
  std::vector<uint32_t> open(states, 0);
  std::vector<std::vector<uint32_t>> sources(states);
  for (uint32_t q = 1; q < states; ++q)
    for (size_t c = 0; c < classes; ++c) {
      const uint32_t to = dfa.next[q * classes + c];
      if (!leads[q] || !leads[to]) continue;
      ++open[q];
      sources[to].push_back(q);
    }
  std::vector<uint32_t> ready;
  for (uint32_t q = 1; q < states; ++q)
    if (leads[q] && open[q] == 0) ready.push_back(q);
  while (!ready.empty()) {
    const uint32_t q = ready.back();
    ready.pop_back();
    uint64_t sum = dfa.label[q] != 0 && wanted(dfa.label[q]) ? 1 : 0;
    for (size_t c = 0; c < classes; ++c)
      sum = plus(sum, times(bytes_of[c], counts[dfa.next[q * classes + c]]));
    counts[q] = sum;
    for (const uint32_t source : sources[q])
      if (--open[source] == 0) ready.push_back(source);
  }
  return counts;
}

std::vector<std::string> few_texts(const Dfa& dfa, const LabelTest& wanted, size_t max) {
  const std::vector<uint64_t> counts = text_counts(dfa, wanted);
  std::vector<std::string> texts;
  if (dfa.start == 0 || counts[dfa.start] > max) return texts;
  // Every step on the way leads to a text, so this takes their bytes times 256.
  std::vector<std::pair<uint32_t, std::string>> open{{dfa.start, ""}};
  while (!open.empty()) {
    const auto [q, text] = std::move(open.back());
    open.pop_back();
    if (dfa.label[q] != 0 && wanted(dfa.label[q])) texts.push_back(text);
    for (int byte = 255; byte >= 0; --byte)
      if (const uint32_t to = dfa.step(q, static_cast<uint8_t>(byte)); counts[to] > 0)
        open.emplace_back(to, text + static_cast<char>(byte));
  }
  return texts;
}

}  // namespace butterfly::model::grammar
