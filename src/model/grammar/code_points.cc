#include "model/grammar/code_points.h"

#include <algorithm>

namespace butterfly::model::grammar {

namespace {

constexpr uint32_t kLastOfLength[] = {0x7F, 0x7FF, 0xFFFF, kCodePointMax};

int encode(uint32_t c, std::array<uint8_t, 4>& bytes) {
  const auto low = [&](int shift) { return static_cast<uint8_t>(0x80 | ((c >> shift) & 0x3F)); };
  if (c <= 0x7F) {
    bytes[0] = static_cast<uint8_t>(c);
    return 1;
  }
  if (c <= 0x7FF) {
    bytes[0] = static_cast<uint8_t>(0xC0 | (c >> 6));
    bytes[1] = low(0);
    return 2;
  }
  if (c <= 0xFFFF) {
    bytes[0] = static_cast<uint8_t>(0xE0 | (c >> 12));
    bytes[1] = low(6);
    bytes[2] = low(0);
    return 3;
  }
  bytes[0] = static_cast<uint8_t>(0xF0 | (c >> 18));
  bytes[1] = low(12);
  bytes[2] = low(6);
  bytes[3] = low(0);
  return 4;
}

// `first` and `last` have codes of equal length. Cuts until every byte but the last differing one is either
// fixed or runs over all continuation bytes.
void split(uint32_t first, uint32_t last, std::vector<ByteSequence>& out) {
  for (int tail = 1; tail < 4; ++tail) {
    const uint32_t mask = (1u << (6 * tail)) - 1;
    if ((first & ~mask) == (last & ~mask)) break;
    if ((first & mask) != 0) {
      split(first, first | mask, out);
      split((first | mask) + 1, last, out);
      return;
    }
    if ((last & mask) != mask) {
      split(first, (last & ~mask) - 1, out);
      split(last & ~mask, last, out);
      return;
    }
  }
  std::array<uint8_t, 4> low{}, high{};
  ByteSequence sequence;
  sequence.count = encode(first, low);
  encode(last, high);
  for (size_t i = 0; i < 4; ++i) sequence.bytes[i] = {low[i], high[i]};
  out.push_back(sequence);
}

}  // namespace

CodePointSet CodePointSet::all() { return of(0, kCodePointMax); }

CodePointSet CodePointSet::of(uint32_t first, uint32_t last) {
  CodePointSet set;
  set.add(first, last);
  return set;
}

void CodePointSet::add(uint32_t first, uint32_t last) {
  if (first < 0xD800 && last > 0xDFFF) {
    add(first, 0xD7FF);
    add(0xE000, last);
    return;
  }
  if (first >= 0xD800 && first <= 0xDFFF) first = 0xE000;
  if (last >= 0xD800 && last <= 0xDFFF) last = 0xD7FF;
  if (first > last) return;
  // The ranges that touch [first, last] become one with it.
  auto from = std::lower_bound(ranges_.begin(), ranges_.end(), first,
                               [](const CodePointRange& range, uint32_t c) { return range.last + 1 < c; });
  auto to = from;
  while (to != ranges_.end() && to->first <= last + 1) {
    first = std::min(first, to->first);
    last = std::max(last, to->last);
    ++to;
  }
  from = ranges_.erase(from, to);
  ranges_.insert(from, {first, last});
}

void CodePointSet::add(const CodePointSet& other) {
  for (const CodePointRange& range : other.ranges_) add(range.first, range.last);
}

CodePointSet CodePointSet::negated() const {
  CodePointSet result;
  uint32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (range.first > next) result.add(next, range.first - 1);
    next = range.last + 1;
  }
  if (next <= kCodePointMax) result.add(next, kCodePointMax);
  return result;
}

bool CodePointSet::contains(uint32_t code_point) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const CodePointRange& range) {
    return range.first <= code_point && code_point <= range.last;
  });
}

std::vector<ByteSequence> utf8_sequences(const CodePointSet& set) {
  std::vector<ByteSequence> out;
  for (const CodePointRange& range : set.ranges()) {
    uint32_t first = range.first;
    for (const uint32_t last_of_length : kLastOfLength) {
      if (first > range.last) break;
      if (first > last_of_length) continue;
      const uint32_t last = std::min(range.last, last_of_length);
      split(first, last, out);
      first = last + 1;
    }
  }
  return out;
}

void append_utf8(uint32_t code_point, std::string& text) {
  std::array<uint8_t, 4> bytes{};
  const int count = encode(code_point, bytes);
  text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(count));
}

}  // namespace butterfly::model::grammar
