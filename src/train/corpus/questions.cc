// Questions whose answers follow from the question, from arithmetic, or from a few facts.
#include <fmt/format.h>

#include <algorithm>

#include "train/corpus/grammar.h"
#include "train/corpus/words.h"

namespace butterfly::train {
namespace {

constexpr int kNumberMax = 12;    // of what is added and subtracted
constexpr int kComparedMax = 20;  // of what is compared

// Answers and questions never begin with a name or a number: in the middle of a text a word is one token, the
// same wherever it stands, and what is the same is easy to find again.

CorpusItem sum(Draw& draw) {
  const int a = draw.between(0, kNumberMax), b = draw.between(0, kNumberMax);
  return {"sum", fmt::format("What is {} plus {}?", a, b), fmt::format("It is {}.", a + b)};
}

CorpusItem difference(Draw& draw) {
  const int a = draw.between(0, kNumberMax), b = draw.between(0, a);
  return {"difference", fmt::format("What is {} minus {}?", a, b), fmt::format("It is {}.", a - b)};
}

CorpusItem larger(Draw& draw) {
  const int a = draw.between(0, kComparedMax - 1);
  int b = draw.between(0, kComparedMax - 1);
  if (b == a) ++b;
  const bool ask_larger = draw.chance(50);
  return {"compare", fmt::format("Which number is {}, {} or {}?", ask_larger ? "larger" : "smaller", a, b),
          fmt::format("It is {}.", ask_larger ? std::max(a, b) : std::min(a, b))};
}

std::string things(int count, const Thing& thing) {
  return count == 1 ? fmt::format("1 {}", thing.one) : fmt::format("{} {}", count, thing.many);
}

CorpusItem count(Draw& draw) {
  const Person who = draw.pick(kPeople), other = draw.pick_other(kPeople, who);
  const Thing thing = draw.pick(kThings);
  const int has = draw.between(2, 10);
  const bool more = draw.chance(50);
  const int given = more ? draw.between(1, 9) : draw.between(1, has - 1);
  const std::string gives = more ? fmt::format("{} gives {} {} more.", other.name, who.object(), given)
                                 : fmt::format("{} gives {} to {}.", who.Subject(), given, other.name);
  return {"count",
          fmt::format("Today {} has {}. {} How many {} does {} have now?", who.name, things(has, thing),
                      gives, thing.many, who.name),
          fmt::format("Now {} has {}.", who.name, things(more ? has + given : has - given, thing))};
}

CorpusItem where(Draw& draw) {
  const Text who = draw.pick(kPeople).name, place = draw.pick(kPlaces);
  const bool morning = draw.chance(50);
  const std::string went = fmt::format("{} {} went to the {}. ", morning ? "Today" : "Then", who, place);
  if (draw.chance(50))
    return {"where", went + fmt::format("Where is {}?", who), fmt::format("At the {}.", place)};
  return {"where", went + fmt::format("Who is at the {}?", place), fmt::format("It is {}.", who)};
}

CorpusItem owner(Draw& draw) {
  const Person who = draw.pick(kPeople);
  const Thing thing = draw.pick(kThings);
  const Text colour = draw.pick(kColours);
  const std::string here = fmt::format("Here is {} with {} {}. ", who.name, with_article(colour), thing.one);
  switch (draw.below(3)) {
    case 0:
      return {"owner", here + fmt::format("Who has the {}?", thing.one), fmt::format("It is {}.", who.name)};
    case 1:
      return {"owner", here + fmt::format("What does {} have?", who.name),
              fmt::format("It is {} {}.", with_article(colour), thing.one)};
    default:
      return {"colour", here + fmt::format("What colour is the {}?", thing.one),
              fmt::format("It is {}.", colour)};
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
  return {"calendar", question, fmt::format("It is {}.", answer)};
}

CorpusItem animal(Draw& draw) {
  const Animal a = draw.pick(kAnimals);
  const Text who = draw.pick(kPeople).name;
  const std::string one = with_article(a.name);
  switch (draw.below(3)) {
    case 0:
      return {"animal", fmt::format("Tell {}: what does {} do?", who, one), fmt::format("It {}.", a.sound)};
    case 1:
      return {"animal", fmt::format("Tell {}: which animal {}?", who, a.sound),
              fmt::format("It is the {}.", a.name)};
    default:
      return {"animal", fmt::format("Tell {}: where does {} live?", who, one),
              fmt::format("It lives in a {}.", a.home)};
  }
}

// A rule that stands here twice is drawn twice as often: what has more to learn comes more often.
constexpr CorpusItem (*kRules[])(Draw&) = {sum,   sum,    sum,    difference, difference, difference,
                                           count, count,  count,  owner,      owner,      owner,
                                           where, larger, larger, calendar,   animal};

struct Small {
  Text question, answer;
};
constexpr Text kGreeting = "Hello! Ask me about numbers, people and things, or for a story.";
// As people type it: with and without capitals and marks, and nothing at all.
constexpr std::array<Small, 22> kTalk = {{
    {"Hello!", kGreeting},
    {"Hello", kGreeting},
    {"hello", kGreeting},
    {"Hello.", kGreeting},
    {"Hello there", kGreeting},
    {"Hello there!", kGreeting},
    {"Hi!", kGreeting},
    {"Hi", kGreeting},
    {"hi", kGreeting},
    {"Hi there", kGreeting},
    {"Hey", kGreeting},
    {"hey", kGreeting},
    {"Good morning", kGreeting},
    {"Good morning!", kGreeting},
    {"Help", kGreeting},
    {"", kGreeting},
    {"How are you?", "I am well, thank you. Ask me about numbers, people and things, or for a story."},
    {"Who are you?", "I am Caterpillar, a small model that Butterfly trained."},
    {"What is your name?", "My name is Caterpillar."},
    {"What can you do?", "I can add and subtract small numbers, say who has what, and tell stories."},
    {"Thank you!", "You are welcome."},
    {"Goodbye!", "Goodbye!"},
}};

}  // namespace

CorpusItem make_question(Draw& draw) { return kRules[draw.below(std::size(kRules))](draw); }

CorpusItem make_talk(Draw& draw) {
  const Small& small = draw.pick(kTalk);
  return {"talk", std::string(small.question), std::string(small.answer)};
}

}  // namespace butterfly::train
