#include "model/grammar/number_dfa.h"

#include <algorithm>
#include <compare>
#include <optional>

#include "base/error.h"
#include "model/grammar/dfa_explore.h"
#include "model/grammar/limits.h"

namespace butterfly::model::grammar {

namespace {

// Where in a number's text we are.
enum class Part : uint8_t {
  kStart,
  kMinus,
  kZero,
  kWhole,
  kDot,
  kFraction,
  kE,
  kESign,
  kExponent,
  kExponent2
};

bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }
bool is_whole(Part part) {
  return part == Part::kZero || part == Part::kWhole || part == Part::kFraction || part == Part::kExponent ||
         part == Part::kExponent2;
}

std::optional<Part> next_part(Part part, uint8_t byte) {
  const bool digit = is_digit(byte);
  switch (part) {
    case Part::kStart:
      if (byte == '-') return Part::kMinus;
      [[fallthrough]];
    case Part::kMinus:
      if (digit) return byte == '0' ? Part::kZero : Part::kWhole;
      return std::nullopt;
    case Part::kWhole:
      if (digit) return part;
      [[fallthrough]];
    case Part::kZero:
      if (byte == '.') return Part::kDot;
      if (byte == 'e') return Part::kE;
      return std::nullopt;
    case Part::kDot:
      return digit ? std::optional(Part::kFraction) : std::nullopt;
    case Part::kFraction:
      if (digit) return part;
      if (byte == 'e') return Part::kE;
      return std::nullopt;
    case Part::kE:
      if (byte == '-' || byte == '+') return Part::kESign;
      [[fallthrough]];
    case Part::kESign:
      return digit ? std::optional(Part::kExponent) : std::nullopt;
    // Two digits at most: most readers of JSON refuse what a double cannot hold.
    case Part::kExponent:
      return digit ? std::optional(Part::kExponent2) : std::nullopt;
    case Part::kExponent2:
      return std::nullopt;
  }
  return std::nullopt;
}

// A class for each digit and sign, one for e and E, one for the rest.
constexpr uint8_t kRepresentatives[] = {0,   '0', '1', '2', '3', '4', '5', '6',
                                        '7', '8', '9', '-', '+', '.', 'e'};
Dfa number_classes() {
  Dfa dfa;
  dfa.classes = static_cast<uint32_t>(std::size(kRepresentatives));
  for (uint8_t c = 1; c < dfa.classes; ++c) dfa.class_of[kRepresentatives[c]] = c;
  dfa.class_of['E'] = dfa.class_of['e'];
  return dfa;
}

template <typename Key, typename Step, typename Accepts>
Dfa machine(const Key& start, Step&& step, Accepts&& accepts) {
  return explore<Key>(number_classes(), kRepresentatives, start, step,
                      [&](const Key& key) { return accepts(key) ? 1u : 0u; });
}

// How the digits so far compare with a bound's, signs aside.
struct Compared {
  Part part = Part::kStart;
  bool negative = false;
  size_t digits = 0;  // of the part before the point, then of the fraction
  int order = 0;
  auto operator<=>(const Compared&) const = default;
};

class Comparer {
 public:
  Comparer(Relation relation, const Decimal& bound) : relation_(relation), bound_(bound) {}

  std::optional<Compared> step(Compared key, uint8_t byte) const {
    const auto part = next_part(key.part, byte);
    if (!part) return std::nullopt;
    const Part before = key.part;
    key.part = *part;
    switch (*part) {
      case Part::kMinus:
        key.negative = true;
        break;
      case Part::kZero:
      case Part::kWhole:
        if (key.digits < bound_.whole.size() && key.order == 0)
          key.order = sign(static_cast<int>(byte) - bound_.whole[key.digits]);
        key.digits = std::min(key.digits + 1, bound_.whole.size() + 1);
        break;
      case Part::kDot:
        key.order = whole_order(key);
        key.digits = 0;
        break;
      case Part::kFraction: {
        const char digit = key.digits < bound_.fraction.size() ? bound_.fraction[key.digits] : '0';
        if (key.order == 0) key.order = sign(static_cast<int>(byte) - digit);
        key.digits = std::min(key.digits + 1, bound_.fraction.size());
        break;
      }
      case Part::kE:
        // Compared with zero the exponent does not matter.
        if (!bound_.zero()) return std::nullopt;
        if (before != Part::kFraction) key.order = whole_order(key);
        key.digits = 0;
        break;
      default:
        break;
    }
    // An order that is decided needs no count of digits any more.
    if (key.part == Part::kFraction && key.order != 0) key.digits = 0;
    return key;
  }

  bool accepts(const Compared& key) const {
    if (!is_whole(key.part)) return false;
    int order = key.order;
    if (key.part == Part::kZero || key.part == Part::kWhole) {
      order = whole_order(key);
      if (order == 0 && !bound_.fraction.empty()) order = -1;
    } else if (key.part == Part::kFraction && order == 0 && key.digits < bound_.fraction.size()) {
      order = -1;
    }
    // `order` is of magnitudes so far.
    if (key.negative != bound_.negative)
      order = !key.negative ? 1 : (bound_.zero() && order == 0 ? 0 : -1);
    else if (key.negative)
      order = -order;
    switch (relation_) {
      case Relation::kLess:
        return order < 0;
      case Relation::kAtMost:
        return order <= 0;
      case Relation::kAtLeast:
        return order >= 0;
      case Relation::kGreater:
        return order > 0;
      case Relation::kEqual:
        return order == 0;
    }
    return false;
  }

 private:
  static int sign(int value) { return (value > 0) - (value < 0); }
  // More digits before the point make a larger number: there are no leading zeros.
  int whole_order(const Compared& key) const {
    if (key.digits < bound_.whole.size()) return -1;
    return key.digits > bound_.whole.size() ? 1 : key.order;
  }

  Relation relation_;
  const Decimal& bound_;
};

struct Remainder {
  Part part = Part::kStart;
  size_t digits = 0;  // of the fraction
  uint64_t rest = 0;
  auto operator<=>(const Remainder&) const = default;
};

}  // namespace

Decimal parse_decimal(std::string_view text) {
  Decimal number;
  size_t at = 0;
  if (at < text.size() && text[at] == '-') {
    number.negative = true;
    ++at;
  }
  std::string digits;
  int64_t point = -1, exponent = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.') {
      point = static_cast<int64_t>(digits.size());
    } else if (c == 'e' || c == 'E') {
      for (size_t i = at + 1; i < text.size(); ++i)
        if (is_digit(static_cast<uint8_t>(text[i])))
          exponent = std::min<int64_t>(exponent * 10 + (text[i] - '0'), 100'000);
      if (text.substr(at).find('-') != text.npos) exponent = -exponent;
      break;
    } else {
      digits += c;
    }
  }
  if (point < 0) point = static_cast<int64_t>(digits.size());
  point += exponent;
  const auto too_long = [&] {
    fail(Errc::kOutOfMemory, "number {} has more than {} digits", text, kDigitsMax);
  };
  if (std::abs(point) > static_cast<int64_t>(kDigitsMax) || digits.size() > kDigitsMax) too_long();
  if (point < 0) {
    digits.insert(0, static_cast<size_t>(-point), '0');
    point = 0;
  }
  if (static_cast<size_t>(point) > digits.size())
    digits.append(static_cast<size_t>(point) - digits.size(), '0');
  number.whole = digits.substr(0, static_cast<size_t>(point));
  number.fraction = digits.substr(static_cast<size_t>(point));
  number.whole.erase(0, std::min(number.whole.find_first_not_of('0'), number.whole.size()));
  if (number.whole.empty()) number.whole.push_back('0');
  number.fraction.erase(number.fraction.find_last_not_of('0') + 1);
  if (number.zero()) number.negative = false;
  return number;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  int order = a.whole.size() != b.whole.size() ? (a.whole.size() < b.whole.size() ? -1 : 1)
                                               : a.whole.compare(b.whole);
  if (order == 0) order = a.fraction.compare(b.fraction);  // no trailing zeros: longer is larger
  order = (order > 0) - (order < 0);
  return a.negative ? -order : order;
}

const Dfa& any_number() {
  static const Dfa dfa = machine(Part::kStart, next_part, is_whole);
  return dfa;
}

const Dfa& any_integer() {
  // Only zeros behind the point; an exponent only behind a number without one, and not negative.
  static const Dfa dfa = machine(
      Part::kStart,
      [](Part part, uint8_t byte) -> std::optional<Part> {
        const auto to = next_part(part, byte);
        if (to == Part::kFraction && byte != '0') return std::nullopt;
        if (to == Part::kE && part == Part::kFraction) return std::nullopt;
        if (to == Part::kESign && byte == '-') return std::nullopt;
        return to;
      },
      is_whole);
  return dfa;
}

const Dfa& plain_integer() {
  static const Dfa dfa = machine(
      Part::kStart,
      [](Part part, uint8_t byte) -> std::optional<Part> {
        const auto to = next_part(part, byte);
        return byte == '.' || byte == 'e' || byte == 'E' ? std::nullopt : to;
      },
      is_whole);
  return dfa;
}

const Dfa& plain_number() {
  static const Dfa dfa = machine(
      Part::kStart,
      [](Part part, uint8_t byte) -> std::optional<Part> {
        return byte == 'e' || byte == 'E' ? std::nullopt : next_part(part, byte);
      },
      is_whole);
  return dfa;
}

Dfa number_dfa(Relation relation, const Decimal& bound) {
  const Comparer comparer(relation, bound);
  return machine(
      Compared{}, [&](const Compared& key, uint8_t byte) { return comparer.step(key, byte); },
      [&](const Compared& key) { return comparer.accepts(key); });
}

Dfa multiple_dfa(const Decimal& factor) {
  // In units of the factor's last digit everything is whole.
  const std::string digits = factor.whole + factor.fraction;
  const size_t places = factor.fraction.size();
  uint64_t unit = 0;
  for (const char c : digits) {
    unit = unit * 10 + static_cast<uint64_t>(c - '0');
    if (unit * (places + 2) > kDfaStatesMax / 2)
      fail(Errc::kUnsupported, "multiples of {}.{} take too many states", factor.whole, factor.fraction);
  }
  return machine(
      Remainder{},
      [&](Remainder key, uint8_t byte) -> std::optional<Remainder> {
        const auto part = next_part(key.part, byte);
        if (!part || part == Part::kE) return std::nullopt;
        key.part = *part;
        if (!is_digit(byte)) return key;
        if (part == Part::kFraction) {
          if (key.digits == places) return byte == '0' ? std::optional(key) : std::nullopt;
          ++key.digits;
        }
        key.rest = (key.rest * 10 + static_cast<uint64_t>(byte - '0')) % unit;
        return key;
      },
      [&](const Remainder& key) {
        uint64_t rest = key.rest;
        for (size_t i = key.digits; i < places; ++i) rest = rest * 10 % unit;
        return is_whole(key.part) && rest == 0;
      });
}

}  // namespace butterfly::model::grammar
