#include "train/corpus/corpus.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_text.h"
#include "train/corpus/grammar.h"

namespace butterfly::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kTalkPercent = 1;
constexpr uint64_t kHeldOutOneIn = 10;
// Items of the three files come from ranges of indices far apart.
constexpr uint64_t kValidBegin = uint64_t{1} << 40, kQuestionsBegin = uint64_t{1} << 41;

Json json_of(const CorpusItem& item) {
  if (item.question.empty()) return {{"text", item.answer}};
  return {{"messages", Json::array({{{"role", "user"}, {"content", item.question}},
                                    {{"role", "assistant"}, {"content", item.answer}}})}};
}

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

// Stories and greetings have no one right answer to hold out.
bool is_question(const CorpusItem& item) { return item.kind != "story" && item.kind != "talk"; }

}  // namespace

CorpusItem corpus_item(uint64_t seed, uint64_t index, int story_percent) {
  Draw draw(seed, index);
  if (draw.chance(kTalkPercent)) return make_talk(draw);
  if (!draw.chance(story_percent)) return make_question(draw);
  const uint64_t form = draw.below(4);
  Story story = make_story(draw);
  std::string question;
  if (form == 0) question = fmt::format("Tell me a story about {}.", story.hero);
  if (form == 1) question = fmt::format("Tell me a story about {} and {}.", story.hero, story.friend_);
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
  Lines train(folder / "train.jsonl");
  for (uint64_t i = 0; report.items < options.items; ++i) {
    const CorpusItem item = corpus_item(options.seed, i, options.story_percent);
    if (is_question(item) && is_held_out(item.question)) continue;
    train.add(json_of(item));
    ++report.items;
  }
  Lines valid(folder / "valid.jsonl");
  for (uint64_t i = kValidBegin; report.valid_items < options.valid_items; ++i) {
    const CorpusItem item = corpus_item(options.seed, i, options.story_percent);
    if (is_question(item) && !is_held_out(item.question)) continue;
    valid.add(json_of(item));
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
