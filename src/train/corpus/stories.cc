// Short stories: somebody, somewhere, something goes wrong, a friend helps, it ends well. Each part has a few
// forms; names, places and things stay the same through the story, and what helps fits what went wrong.
#include <fmt/format.h>

#include "train/corpus/grammar.h"
#include "train/corpus/words.h"

namespace butterfly::train {
namespace {

struct Cast {
  Person hero, friend_;
  Animal pet, animal;
  Text place, colour;
  Thing thing;
  int found, carried;  // things that are found, and how many of them the hero takes
};

std::string opening(Draw& draw, const Cast& c) {
  switch (draw.below(4)) {
    case 0:
      return fmt::format("Once upon a time there was a {} named {}. {} lived near a {}.",
                         c.hero.she ? "girl" : "boy", c.hero.name, c.hero.Subject(), c.place);
    case 1:
      return fmt::format("One sunny morning {} went to the {} with {} {} {}.", c.hero.name, c.place,
                         c.hero.owner(), c.colour, c.thing.one);
    case 2:
      return fmt::format("Long ago {} had {} called Spot. Every day they played near the {}.", c.hero.name,
                         with_article(c.pet.name), c.place);
    default:
      return fmt::format("It was {} and {} was bored. \"I will go to the {},\" {} said.", draw.pick(kDays),
                         c.hero.name, c.place, c.hero.subject());
  }
}

std::string help(Draw& draw, const Cast& c) {
  switch (draw.below(4)) {
    case 0:
      return fmt::format("{} heard it and came to help. \"Do not worry,\" {} said.", c.friend_.name,
                         c.friend_.subject());
    case 1:
      return fmt::format("{} asked {} for help, and together they had an idea.", c.hero.name, c.friend_.name);
    case 2:
      return fmt::format("{} thought for a while. Then {} called {}, who knew what to do.", c.hero.name,
                         c.hero.subject(), c.friend_.name);
    default:
      return fmt::format("Luckily {} was near. {} ran as fast as {} could.", c.friend_.name,
                         c.friend_.Subject(), c.friend_.subject());
  }
}

// What goes wrong, and how it is put right.
struct Trouble {
  std::string (*begins)(const Cast& c);
  std::string (*ends)(const Cast& c);
};
constexpr std::array<Trouble, 5> kTroubles = {{
    {[](const Cast& c) {
       return fmt::format("One day {} lost {} {} {}. {} looked everywhere, but it was gone.", c.hero.name,
                          c.hero.owner(), c.colour, c.thing.one, c.hero.Subject());
     },
     [](const Cast& c) {
       return fmt::format("They searched again, and {} found the {} under a tree.", c.friend_.name,
                          c.thing.one);
     }},
    {[](const Cast& c) {
       return fmt::format("There {} met {} that was stuck behind a wall. It could not get out.",
                          c.hero.subject(), with_article(c.animal.name));
     },
     [](const Cast& c) { return fmt::format("They opened a gate, and the {} was free.", c.animal.name); }},
    {[](const Cast& c) {
       return fmt::format("Then dark clouds came and it began to rain. {} was cold and a little afraid.",
                          c.hero.name);
     },
     [](const Cast& c) {
       return fmt::format("They waited under a roof at the {} until the sun came back.", c.place);
     }},
    {[](const Cast& c) {
       return fmt::format("There {} found {} {}, too many to carry alone.", c.hero.subject(), c.found,
                          c.thing.many);
     },
     [](const Cast& c) {
       return fmt::format("{} carried {} {} and {} carried {}.", c.hero.name, c.carried, c.thing.many,
                          c.friend_.name, c.found - c.carried);
     }},
    {[](const Cast& c) {
       return fmt::format("{} came by and took the {} {} away. \"Come back!\" cried {}.",
                          capital(with_article(c.animal.name)), c.colour, c.thing.one, c.hero.name);
     },
     [](const Cast& c) {
       return fmt::format("They gave the {} some bread, and it gave the {} back.", c.animal.name,
                          c.thing.one);
     }},
}};

std::string ending(Draw& draw, const Cast& c) {
  switch (draw.below(5)) {
    case 0:
      return fmt::format("Soon all was well again. {} thanked {} and gave {} {}.", c.hero.name,
                         c.friend_.name, c.friend_.object(), with_article(c.thing.one));
    case 1:
      return fmt::format("In the evening they went home together. {} was tired but happy.", c.hero.name);
    case 2:
      return fmt::format("They laughed and shared {} {}. From that day on they were good friends.",
                         draw.between(2, 6), c.thing.many);
    case 3:
      return fmt::format("{} smiled. \"That was the best {} ever,\" {} said.", c.hero.name, draw.pick(kDays),
                         c.hero.subject());
    default:
      return fmt::format("And {} learned that it is good to have a friend like {}.", c.hero.name,
                         c.friend_.name);
  }
}

}  // namespace

Story make_story(Draw& draw) {
  // One after the other: the order of evaluation inside an expression is not fixed.
  Cast cast{};
  cast.hero = draw.pick(kPeople);
  cast.friend_ = draw.pick_other(kPeople, cast.hero);
  cast.pet = draw.pick(kAnimals);
  cast.animal = draw.pick_other(kAnimals, cast.pet);
  cast.place = draw.pick(kPlaces);
  cast.colour = draw.pick(kColours);
  cast.thing = draw.pick(kThings);
  cast.found = draw.between(5, 20);
  cast.carried = draw.between(2, cast.found - 2);
  const Trouble& trouble = draw.pick(kTroubles);
  std::string text = opening(draw, cast) + " " + trouble.begins(cast);
  text += " " + help(draw, cast);
  text += " " + trouble.ends(cast);
  text += " " + ending(draw, cast);
  return {std::string(cast.hero.name), std::string(cast.friend_.name), std::move(text)};
}

}  // namespace butterfly::train
