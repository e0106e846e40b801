// Automata over the texts of JSON numbers: integers, bounds, multiples.
//
// Bounds other than zero and multiples leave out numbers written with an exponent: such a text has no bound
// on the digits that decide. Exponents have at most two digits. Every number has a text without one.
#pragma once
#include <string>
#include <string_view>

#include "model/grammar/dfa.h"

namespace butterfly::model::grammar {

// A number as people write it, exact.
struct Decimal {
  bool negative = false;
  std::string whole = "0";  // no leading zeros
  std::string fraction;     // no trailing zeros

  bool zero() const { return whole == "0" && fraction.empty(); }
  bool integer() const { return fraction.empty(); }
  bool operator==(const Decimal&) const = default;
};

// From the text of a JSON number. Throws Error kOutOfMemory for one with more than kDigitsMax digits.
Decimal parse_decimal(std::string_view text);
int compare(const Decimal& a, const Decimal& b);  // -1, 0, 1

const Dfa& any_number();
const Dfa& any_integer();    // 1, 1.0, 1e2
const Dfa& plain_integer();  // digits only
const Dfa& plain_number();   // without an exponent
enum class Relation { kLess, kAtMost, kAtLeast, kGreater, kEqual };
Dfa number_dfa(Relation relation, const Decimal& bound);
// Throws Error kUnsupported if the multiple takes too many states.
Dfa multiple_dfa(const Decimal& factor);

}  // namespace butterfly::model::grammar
