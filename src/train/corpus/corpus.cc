#include "train/corpus/corpus.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json_text.h"
#include "train/corpus/draw.h"
#include "train/corpus/grammar.h"

namespace butterfly::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kTalkPercent = 3;
constexpr uint64_t kHeldOutOneIn = 10;
// Items of the three files come from ranges of indices far apart.
constexpr uint64_t kValidBegin = uint64_t{1} << 40, kQuestionsBegin = uint64_t{1} << 41;
constexpr uint64_t kTurnsBegin = uint64_t{1} << 42;  // of how long conversations are

class Lines {
 public:
  explicit Lines(const std::filesystem::path& path) : path_(path), out_(path, std::ios::binary) {}
  void add(const Json& json) {
    const std::string line = json_text(json) + "\n";
    bytes_ += line.size();
    out_ << line;
  }
  uint64_t close() {
    out_.close();
    if (!out_) fail(Errc::kIo, "{}: cannot be written", path_.string());
    return bytes_;
  }

 private:
  std::filesystem::path path_;
  std::ofstream out_;
  uint64_t bytes_ = 0;
};

// Items as lines: a story without a question is a text, the others are the turns of conversations. Documents
// do not see each other in training, so whoever is to answer a second question has to meet one.
class Conversations {
 public:
  Conversations(const std::filesystem::path& path, const CorpusOptions& options)
      : lines_(path), seed_(options.seed), turns_max_(std::max<uint64_t>(1, options.turns_max)) {}
  void add(const CorpusItem& item) {
    if (item.kind == "story" && item.question.empty()) return lines_.add({{"text", item.answer}});
    messages_.push_back({{"role", "user"}, {"content", item.question}});
    messages_.push_back({{"role", "assistant"}, {"content", item.answer}});
    if (messages_.size() >= 2 * turns_) write();
  }
  uint64_t close() {
    if (!messages_.empty()) write();
    return lines_.close();
  }

 private:
  void write() {
    lines_.add({{"messages", std::exchange(messages_, Json::array())}});
    turns_ = 1 + Draw(seed_, kTurnsBegin + written_++).below(turns_max_);
  }

  Lines lines_;
  const uint64_t seed_, turns_max_;
  Json messages_ = Json::array();
  uint64_t turns_ = 1, written_ = 0;
};

// Stories and greetings have no one right answer to hold out.
bool is_question(const CorpusItem& item) { return item.kind != "story" && item.kind != "talk"; }

}  // namespace

CorpusItem corpus_item(uint64_t seed, uint64_t index, int story_percent) {
  Draw draw(seed, index);
  if (draw.chance(kTalkPercent)) return make_talk(draw);
  if (!draw.chance(story_percent)) return make_question(draw);
  // Two names ask for more than one: both are in the story.
  const uint64_t form = draw.below(6);
  Story story = make_story(draw);
  std::string question;
  if (form == 0) question = fmt::format("Tell me a story about {}.", story.hero);
  if (form == 1) question = "Tell me a story.";
  if (form == 2 || form == 3)
    question = fmt::format("Tell me a story about {} and {}.", story.hero, story.friend_);
  return {"story", std::move(question), std::move(story.text)};
}

bool is_held_out(std::string_view question) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : question) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return (hash >> 32) % kHeldOutOneIn == 0;  // the high half is mixed better
}

CorpusReport write_corpus(const std::filesystem::path& folder, const CorpusOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(Errc::kIo, "{}: {}", folder.string(), error.message());
  CorpusReport report;
  Conversations train(folder / "train.jsonl", options);
  for (uint64_t i = 0; report.items < options.items; ++i) {
    const CorpusItem item = corpus_item(options.seed, i, options.story_percent);
    if (is_question(item) && is_held_out(item.question)) continue;
    train.add(item);
    ++report.items;
  }
  Conversations valid(folder / "valid.jsonl", options);
  for (uint64_t i = kValidBegin; report.valid_items < options.valid_items; ++i) {
    const CorpusItem item = corpus_item(options.seed, i, options.story_percent);
    if (is_question(item) && !is_held_out(item.question)) continue;
    valid.add(item);
    ++report.valid_items;
  }
  Lines questions(folder / "questions.jsonl");
  std::set<std::string> seen;
  for (uint64_t i = kQuestionsBegin; report.question_items < options.question_items; ++i) {
    const CorpusItem item = corpus_item(options.seed, i, options.story_percent);
    if (!is_question(item) || !is_held_out(item.question) || !seen.insert(item.question).second) continue;
    questions.add({{"kind", item.kind}, {"question", item.question}, {"answer", item.answer}});
    ++report.question_items;
  }
  report.bytes = train.close();
  valid.close();
  questions.close();
  return report;
}

}  // namespace butterfly::train
