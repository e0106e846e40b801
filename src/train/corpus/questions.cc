// Questions whose answers follow from the question, from arithmetic, or from a few facts.
#include <fmt/format.h>

#include <algorithm>

#include "train/corpus/grammar.h"
#include "train/corpus/words.h"

namespace butterfly::train {
namespace {

constexpr int kNumberMax = 20;

CorpusItem sum(Draw& draw) {
  const int a = draw.between(0, kNumberMax), b = draw.between(0, kNumberMax);
  return {"sum", fmt::format("What is {} plus {}?", a, b), fmt::format("{} plus {} is {}.", a, b, a + b)};
}

CorpusItem difference(Draw& draw) {
  const int a = draw.between(0, kNumberMax), b = draw.between(0, a);
  return {"difference", fmt::format("What is {} minus {}?", a, b),
          fmt::format("{} minus {} is {}.", a, b, a - b)};
}

CorpusItem larger(Draw& draw) {
  const int a = draw.between(0, 60);
  int b = draw.between(0, 60);
  if (b == a) ++b;
  const bool ask_larger = draw.chance(50);
  const int answer = ask_larger ? std::max(a, b) : std::min(a, b);
  const Text word = ask_larger ? "larger" : "smaller";
  return {"compare", fmt::format("Which number is {}, {} or {}?", word, a, b),
          fmt::format("{} is {}.", answer, word)};
}

std::string things(int count, const Thing& thing) {
  return count == 1 ? fmt::format("1 {}", thing.one) : fmt::format("{} {}", count, thing.many);
}

CorpusItem count(Draw& draw) {
  const Person who = draw.pick(kPeople), other = draw.pick_other(kPeople, who);
  const Thing thing = draw.pick(kThings);
  const int has = draw.between(2, 10);
  if (draw.chance(50)) {
    const int more = draw.between(1, 9);
    return {"count",
            fmt::format("{} has {}. {} gives {} {} more. How many {} does {} have now?", who.name,
                        things(has, thing), other.name, who.object(), more, thing.many, who.name),
            fmt::format("{} has {}.", who.name, things(has + more, thing))};
  }
  const int less = draw.between(1, has - 1);
  return {"count",
          fmt::format("{} has {}. {} gives {} to {}. How many {} does {} have now?", who.name,
                      things(has, thing), who.Subject(), less, other.name, thing.many, who.name),
          fmt::format("{} has {}.", who.name, things(has - less, thing))};
}

CorpusItem where(Draw& draw) {
  const Person one = draw.pick(kPeople), two = draw.pick_other(kPeople, one);
  const Text first = draw.pick(kPlaces), second = draw.pick_other(kPlaces, first);
  const bool ask_one = draw.chance(50);
  const Person& who = ask_one ? one : two;
  return {"where",
          fmt::format("{} went to the {}. {} went to the {}. Where is {}?", one.name, first, two.name, second,
                      who.name),
          fmt::format("{} is in the {}.", who.name, ask_one ? first : second)};
}

CorpusItem owner(Draw& draw) {
  const Person one = draw.pick(kPeople), two = draw.pick_other(kPeople, one);
  const Thing thing = draw.pick(kThings), other = draw.pick_other(kThings, thing);
  const Text colour = draw.pick(kColours), other_colour = draw.pick_other(kColours, colour);
  const std::string has = fmt::format("{} has a {} {}. {} has a {} {}. ", one.name, colour, thing.one,
                                      two.name, other_colour, other.one);
  switch (draw.below(3)) {
    case 0:
      return {"owner", has + fmt::format("Who has the {}?", thing.one),
              fmt::format("{} has the {}.", one.name, thing.one)};
    case 1:
      return {"owner", has + fmt::format("What does {} have?", two.name),
              fmt::format("{} has a {} {}.", two.name, other_colour, other.one)};
    default:
      return {"colour", has + fmt::format("What is the {} like?", thing.one),
              fmt::format("The {} is {}.", thing.one, colour)};
  }
}

CorpusItem calendar(Draw& draw) {
  const bool day = draw.chance(50), after = draw.chance(50);
  const size_t size = day ? kDays.size() : kMonths.size();
  const size_t at = draw.below(size), there = after ? (at + 1) % size : (at + size - 1) % size;
  const Text asked = day ? kDays[at] : kMonths[at], answer = day ? kDays[there] : kMonths[there];
  // Several ways to ask, so that a held-out question has a sister that was seen.
  const Text unit = day ? "day" : "month";
  const Text how = after ? "after" : "before";
  const std::string question = draw.chance(50) ? fmt::format("Which {} comes {} {}?", unit, how, asked)
                                               : fmt::format("What {} is {} {}?", unit, how, asked);
  return {"calendar", question, fmt::format("{} comes {} {}.", answer, how, asked)};
}

CorpusItem animal(Draw& draw) {
  const Animal a = draw.pick(kAnimals);
  const Person who = draw.pick(kPeople);
  switch (draw.below(3)) {
    case 0:
      return {"animal", fmt::format("{} asks: what does a {} do?", who.name, a.name),
              fmt::format("A {} {}.", a.name, a.sound)};
    case 1:
      return {"animal", fmt::format("{} asks: which animal {}?", who.name, a.sound),
              fmt::format("The {} {}.", a.name, a.sound)};
    default:
      return {"animal", fmt::format("{} asks: where does a {} live?", who.name, a.name),
              fmt::format("A {} lives in a {}.", a.name, a.home)};
  }
}

constexpr CorpusItem (*kRules[])(Draw&) = {sum,   sum,   sum,   difference, difference, larger,
                                           count, count, where, owner,      calendar,   animal};

}  // namespace

CorpusItem make_question(Draw& draw) { return kRules[draw.below(std::size(kRules))](draw); }

}  // namespace butterfly::train
