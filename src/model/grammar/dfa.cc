#include "model/grammar/dfa.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>

#include "base/check.h"
#include "base/error.h"
#include "model/grammar/code_points.h"
#include "model/grammar/compile_budget.h"
#include "model/grammar/dfa_explore.h"
#include "model/grammar/limits.h"

namespace butterfly::model::grammar {

namespace {

// Classes that every factor keeps apart, with a byte of each.
std::vector<uint8_t> join_classes(std::span<const DfaFactor> factors, Dfa& dfa) {
  std::map<std::vector<uint8_t>, uint8_t> ids;
  std::vector<uint8_t> representatives;
  std::vector<uint8_t> key(factors.size());
  for (int byte = 0; byte < 256; ++byte) {
    for (size_t i = 0; i < factors.size(); ++i) key[i] = factors[i].dfa->class_of[static_cast<size_t>(byte)];
    const auto [found, is_new] = ids.try_emplace(key, static_cast<uint8_t>(representatives.size()));
    if (is_new) representatives.push_back(static_cast<uint8_t>(byte));
    dfa.class_of[static_cast<size_t>(byte)] = found->second;
  }
  dfa.classes = static_cast<uint32_t>(representatives.size());
  return representatives;
}

// How many bytes of a character are still missing, and which the next one may be. 0: between characters.
enum Utf8State : uint32_t { kDead, kWhole, kOne, kTwo, kThree, kAfterE0, kAfterEd, kAfterF0, kAfterF4 };

Utf8State utf8_step(uint32_t state, uint8_t byte) {
  const bool tail = byte >= 0x80 && byte <= 0xBF;
  switch (state) {
    case kWhole:
      if (byte < 0x80) return kWhole;
      if (byte >= 0xC2 && byte <= 0xDF) return kOne;
      if (byte == 0xE0) return kAfterE0;
      if (byte == 0xED) return kAfterEd;
      if (byte >= 0xE1 && byte <= 0xEF) return kTwo;
      if (byte == 0xF0) return kAfterF0;
      if (byte >= 0xF1 && byte <= 0xF3) return kThree;
      return byte == 0xF4 ? kAfterF4 : kDead;
    case kOne:
      return tail ? kWhole : kDead;
    case kTwo:
      return tail ? kOne : kDead;
    case kThree:
      return tail ? kTwo : kDead;
    case kAfterE0:
      return tail && byte >= 0xA0 ? kOne : kDead;
    case kAfterEd:
      return tail && byte <= 0x9F ? kOne : kDead;
    case kAfterF0:
      return tail && byte >= 0x90 ? kTwo : kDead;
    case kAfterF4:
      return tail && byte <= 0x8F ? kTwo : kDead;
    default:
      return kDead;
  }
}

// Bytes that utf8_step() does not tell apart.
std::vector<uint8_t> utf8_classes(Dfa& dfa) {
  constexpr uint8_t kFirst[] = {0x00, 0x80, 0x90, 0xA0, 0xC0, 0xC2, 0xE0,
                                0xE1, 0xED, 0xEE, 0xF0, 0xF1, 0xF4, 0xF5};
  std::vector<uint8_t> representatives(std::begin(kFirst), std::end(kFirst));
  dfa.classes = static_cast<uint32_t>(representatives.size());
  for (size_t byte = 0; byte < 256; ++byte)
    dfa.class_of[byte] = static_cast<uint8_t>(
        std::upper_bound(representatives.begin(), representatives.end(), byte) - representatives.begin() - 1);
  return representatives;
}

// True if every UTF-8 text from `state` is accepted with the label of `state`.
bool is_sink(const Dfa& dfa, uint32_t state) {
  const uint32_t label = dfa.label[state];
  if (label == 0) return false;
  std::vector<std::pair<uint32_t, uint32_t>> seen{{state, kWhole}};
  for (size_t i = 0; i < seen.size(); ++i) {
    const auto [q, utf8] = seen[i];
    if (utf8 == kWhole && dfa.label[q] != label) return false;
    for (int byte = 0; byte < 256; ++byte) {
      const uint32_t to = utf8_step(utf8, static_cast<uint8_t>(byte));
      if (to == kDead) continue;
      const std::pair<uint32_t, uint32_t> pair{dfa.step(q, static_cast<uint8_t>(byte)), to};
      if (pair.first == 0) return false;
      if (std::find(seen.begin(), seen.end(), pair) != seen.end()) continue;
      // A sink needs one state for whole characters and few for parts; more means that it is none that
      // would help.
      if (seen.size() > 16) return false;
      seen.push_back(pair);
    }
  }
  return true;
}

}  // namespace

Dfa finished(Dfa dfa) {
  const size_t states = dfa.states(), classes = dfa.classes;
  // Backwards from accepting states, along edges sorted by their target.
  std::vector<uint32_t> first(states + 1, 0), sources(dfa.next.size());
  for (const uint32_t to : dfa.next) ++first[to];
  uint32_t sum = 0;
  for (uint32_t& count : first) sum += std::exchange(count, sum);
  std::vector<uint32_t> fill(first.begin(), first.end() - 1);
  for (size_t edge = 0; edge < dfa.next.size(); ++edge)
    sources[fill[dfa.next[edge]]++] = static_cast<uint32_t>(edge / classes);
  std::vector<uint8_t> live(states, 0);
  std::vector<uint32_t> work;
  for (uint32_t q = 1; q < states; ++q)
    if (dfa.label[q] != 0) {
      live[q] = 1;
      work.push_back(q);
    }
  while (!work.empty()) {
    const uint32_t q = work.back();
    work.pop_back();
    for (uint32_t i = first[q]; i < first[q + 1]; ++i) {
      const uint32_t from = sources[i];
      if (from != 0 && !live[from]) {
        live[from] = 1;
        work.push_back(from);
      }
    }
  }

  std::vector<uint32_t> id(states, 0);
  uint32_t count = 1;
  for (uint32_t q = 1; q < states; ++q)
    if (live[q]) id[q] = count++;
  static std::atomic<uint64_t> made{0};
  Dfa out;
  out.id = ++made;
  out.class_of = dfa.class_of;
  out.classes = dfa.classes;
  out.start = id[dfa.start];
  out.next.assign(count * classes, 0);
  out.label.assign(count, 0);
  for (uint32_t q = 1; q < states; ++q) {
    if (!live[q]) continue;
    out.label[id[q]] = dfa.label[q];
    for (size_t c = 0; c < classes; ++c) out.next[id[q] * classes + c] = id[dfa.next[q * classes + c]];
  }
  out.sink.assign(count, 0);
  for (uint32_t q = 1; q < count; ++q)
    if (out.step(q, 'a') == q && out.step(q, '0') == q) out.sink[q] = is_sink(out, q);
  return out;
}

const Dfa& any_text() {
  static const Dfa dfa = [] {
    Dfa made;
    const std::vector<uint8_t> representatives = utf8_classes(made);
    return explore<uint32_t>(
        std::move(made), representatives, kWhole,
        [](uint32_t state, uint8_t byte) -> std::optional<uint32_t> {
          const uint32_t to = utf8_step(state, byte);
          if (to == kDead) return std::nullopt;
          return to;
        },
        [](uint32_t state) { return state == kWhole ? 1u : 0u; });
  }();
  return dfa;
}

Dfa literal_dfa(std::span<const std::string> texts) {
  Dfa dfa;
  std::array<bool, 256> used{};
  for (const std::string& text : texts)
    for (const char c : text) used[static_cast<uint8_t>(c)] = true;
  dfa.classes = 1;
  for (size_t byte = 0; byte < 256; ++byte)
    dfa.class_of[byte] = used[byte] && dfa.classes < 256 ? static_cast<uint8_t>(dfa.classes++) : uint8_t{0};
  dfa.next.assign(dfa.classes * 2, 0);
  dfa.label.assign(2, 0);
  dfa.start = 1;
  for (size_t i = 0; i < texts.size(); ++i) {
    uint32_t q = 1;
    for (const char c : texts[i]) {
      const size_t edge = q * dfa.classes + dfa.class_of[static_cast<uint8_t>(c)];
      if (dfa.next[edge] == 0) {
        dfa.next[edge] = static_cast<uint32_t>(dfa.label.size());
        dfa.label.push_back(0);
        dfa.next.resize(dfa.next.size() + dfa.classes, 0);
        if (dfa.next.size() > kDfaCellsMax)
          fail(Errc::kOutOfMemory, "needs more than {} states", dfa.label.size() - 1);
      }
      q = dfa.next[edge];
    }
    dfa.label[q] = static_cast<uint32_t>(i + 1);
  }
  CompileBudget::spend(dfa.next.size() / 2);
  return finished(std::move(dfa));
}

Dfa product(std::span<const DfaFactor> factors,
            const std::function<uint32_t(std::span<const uint32_t>)>& label) {
  Dfa dfa;
  const std::vector<uint8_t> representatives = join_classes(factors, dfa);
  std::vector<uint32_t> start, labels(factors.size());
  bool alive = true;
  for (const DfaFactor& factor : factors) {
    start.push_back(factor.dfa->start);
    alive &= factor.dfa->start != 0 || !factor.required;
  }
  if (!alive) {
    dfa.next.assign(dfa.classes, 0);
    dfa.label.assign(1, 0);
    return finished(std::move(dfa));
  }
  return explore<std::vector<uint32_t>>(
      std::move(dfa), representatives, start,
      [&](const std::vector<uint32_t>& from, uint8_t byte) -> std::optional<std::vector<uint32_t>> {
        std::vector<uint32_t> to(from.size());
        for (size_t i = 0; i < from.size(); ++i) {
          to[i] = factors[i].dfa->step(from[i], byte);
          if (to[i] == 0 && factors[i].required) return std::nullopt;
        }
        return to;
      },
      [&](const std::vector<uint32_t>& state) {
        for (size_t i = 0; i < state.size(); ++i) labels[i] = factors[i].dfa->label[state[i]];
        return label(labels);
      },
      1 + factors.size() / 8);
}

Dfa length_dfa(uint64_t min, uint64_t max) {
  Dfa made;
  const std::vector<uint8_t> representatives = utf8_classes(made);
  using Key = std::pair<uint64_t, uint32_t>;  // whole characters so far, state within one
  // With no maximum the count stops at the minimum.
  const uint64_t top = max == kUnbounded ? min : max + 1;
  return explore<Key>(
      std::move(made), representatives, Key{0, kWhole},
      [&](const Key& key, uint8_t byte) -> std::optional<Key> {
        const uint32_t to = utf8_step(key.second, byte);
        if (to == kDead) return std::nullopt;
        const uint64_t count = key.first + (to == kWhole ? 1 : 0);
        if (max != kUnbounded && count > max) return std::nullopt;
        return Key{std::min(count, top), to};
      },
      [&](const Key& key) { return key.second == kWhole && key.first >= min ? 1u : 0u; });
}

}  // namespace butterfly::model::grammar
