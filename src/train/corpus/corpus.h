// A corpus of our own: short stories, and questions with answers, from a grammar. Made, not collected:
// anybody can make the same bytes again from the seed.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace butterfly::train {

struct CorpusItem {
  std::string kind;      // "story", "sum", "difference", "count", "where", ...
  std::string question;  // empty: a text without a question
  std::string answer;    // the answer, or the text
};

inline constexpr int kStoryPercent = 10;

// Item `index` of the corpus with this seed.
CorpusItem corpus_item(uint64_t seed, uint64_t index, int story_percent = kStoryPercent);

// One question in ten is never trained on, whatever seed or index leads to it: decided by its own text, so a
// model that answers it has not seen it.
bool is_held_out(std::string_view question);

struct CorpusOptions {
  uint64_t seed = 1;
  int story_percent = kStoryPercent;  // the rest are questions
  uint64_t items = 100'000;           // to train on
  uint64_t valid_items = 1'000;       // of the same kinds, all held out
  uint64_t question_items = 500;      // held-out questions for evaluation, no stories; all different
  uint64_t turns_max = 1;             // items of one conversation: 1 to so many
};
struct CorpusReport {
  uint64_t items = 0, valid_items = 0, question_items = 0;
  uint64_t bytes = 0;  // of train.jsonl
};
// Writes train.jsonl, valid.jsonl ({"text": …} or {"messages": […]}) and questions.jsonl ({"kind",
// "question", "answer"}) into `folder`. Throws Error kIo.
CorpusReport write_corpus(const std::filesystem::path& folder, const CorpusOptions& options);

}  // namespace butterfly::train
