// The rules of the corpus: each makes one item.
#pragma once
#include "train/corpus/corpus.h"
#include "train/corpus/draw.h"

namespace butterfly::train {

struct Story {
  std::string hero, friend_;
  std::string text;
};
Story make_story(Draw& draw);
// A question of any kind.
CorpusItem make_question(Draw& draw);
// Greetings, and who is speaking.
CorpusItem make_talk(Draw& draw);

}  // namespace butterfly::train
