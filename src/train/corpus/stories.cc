// Short stories: somebody, somewhere, something happens, it ends well. Each part has a few forms; names,
// places and things stay the same through the story.
#include <fmt/format.h>

#include "train/corpus/grammar.h"
#include "train/corpus/words.h"

namespace butterfly::train {
namespace {

struct Cast {
  Person hero, friend_;
  Animal animal;
  Text place, colour;
  Thing thing;
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
      return fmt::format("{} had a {} called Spot. Every day they played in the {}.", c.hero.name,
                         c.animal.name, c.place);
    default:
      return fmt::format("It was {} and {} was bored. \"Let us go to the {},\" said {}.", draw.pick(kDays),
                         c.hero.name, c.place, c.friend_.name);
  }
}

std::string trouble(Draw& draw, const Cast& c) {
  switch (draw.below(5)) {
    case 0:
      return fmt::format("There {} lost {} {} {}. {} looked everywhere, but it was gone.", c.hero.subject(),
                         c.hero.owner(), c.colour, c.thing.one, c.hero.Subject());
    case 1:
      return fmt::format("There {} met a {} that was stuck behind a wall. It could not get out.",
                         c.hero.subject(), c.animal.name);
    case 2:
      return fmt::format("Then dark clouds came and it began to rain. {} was cold and a little afraid.",
                         c.hero.name);
    case 3:
      return fmt::format("There {} found {} {}, too many to carry alone.", c.hero.subject(),
                         draw.between(5, 20), c.thing.many);
    default:
      return fmt::format("A {} came by and took the {} away. \"Come back!\" cried {}.", c.animal.name,
                         c.thing.one, c.hero.name);
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
      return fmt::format("{} thought for a while. Then {} asked an old {}, who knew what to do.", c.hero.name,
                         c.hero.subject(), c.hero.she ? "woman" : "man");
    default:
      return fmt::format("Luckily {} was near. {} ran as fast as {} could.", c.friend_.name,
                         c.friend_.Subject(), c.friend_.subject());
  }
}

std::string ending(Draw& draw, const Cast& c) {
  switch (draw.below(5)) {
    case 0:
      return fmt::format("Soon all was well again. {} thanked {} and gave {} a {}.", c.hero.name,
                         c.friend_.name, c.friend_.object(), c.thing.one);
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
  const Person hero = draw.pick(kPeople);
  const Cast cast{hero,
                  draw.pick_other(kPeople, hero),
                  draw.pick(kAnimals),
                  draw.pick(kPlaces),
                  draw.pick(kColours),
                  draw.pick(kThings)};
  // One after the other: the order of evaluation inside an expression is not fixed.
  std::string text = opening(draw, cast);
  for (const auto part : {trouble, help, ending}) text += " " + part(draw, cast);
  return {std::string(hero.name), std::move(text)};
}

}  // namespace butterfly::train
