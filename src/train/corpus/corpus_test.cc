// The corpus is the same for the same seed, its answers are right, and held-out questions stay out.
#include "train/corpus/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "base/testing/temp_dir.h"

namespace butterfly::train {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Corpus, AnItemDependsOnSeedAndIndexAlone) {
  for (uint64_t i = 0; i < 50; ++i) EXPECT_EQ(corpus_item(3, i).answer, corpus_item(3, i).answer);
  int differ = 0;
  for (uint64_t i = 0; i < 50; ++i) differ += corpus_item(3, i).answer != corpus_item(4, i).answer;
  EXPECT_GT(differ, 45);
}

TEST(Corpus, SumsAreRight) {
  std::map<std::string, int> kinds;
  for (uint64_t i = 0; i < 4000; ++i) {
    const CorpusItem item = corpus_item(1, i);
    ++kinds[item.kind];
    EXPECT_FALSE(item.answer.empty());
    int a, b, c;
    if (item.kind != "sum" && item.kind != "difference") continue;
    const bool sum = item.kind == "sum";
    ASSERT_EQ(
        std::sscanf(item.question.c_str(), sum ? "What is %d plus %d?" : "What is %d minus %d?", &a, &b), 2);
    ASSERT_EQ(std::sscanf(item.answer.c_str(), "It is %d.", &c), 1) << item.answer;
    EXPECT_EQ(sum ? a + b : a - b, c);
    EXPECT_GE(c, 0);
  }
  EXPECT_GE(kinds.size(), 9u);
}

// In questions about who is where, the answer must be what the question says of that person.
TEST(Corpus, AnswersFollowFromTheQuestion) {
  size_t seen = 0;
  for (uint64_t i = 0; i < 4000; ++i) {
    const CorpusItem item = corpus_item(2, i);
    if (item.kind != "where") continue;
    const size_t last = item.answer.rfind(' ') + 1;
    const std::string answer = item.answer.substr(last, item.answer.size() - last - 1);
    const size_t asked = item.question.rfind(' ') + 1;
    const std::string other = item.question.substr(asked, item.question.size() - asked - 1);
    const bool who = item.question.find("Who is") != std::string::npos;
    EXPECT_THAT(item.question, ::testing::HasSubstr((who ? answer : other) + " went to the " +
                                                    (who ? other : answer) + "."));
    ++seen;
  }
  EXPECT_GT(seen, 100u);
}

// What is found in a story and what the two friends carry home are the same number.
TEST(Corpus, StoriesAddUp) {
  size_t seen = 0;
  for (uint64_t i = 0; i < 10000; ++i) {
    const CorpusItem item = corpus_item(3, i);
    if (item.kind != "story") continue;
    const std::string& text = item.answer;
    for (const char* wrong : {" a a", " a e", " a i", " a o", " an b", "{", "  "})
      EXPECT_EQ(text.find(wrong), std::string::npos) << text;
    const size_t found = text.find(" found "), first = text.find(" carried "),
                 second = text.find(" carried ", first + 1);
    if (second == std::string::npos) continue;
    EXPECT_EQ(std::stoi(text.substr(found + 7)),
              std::stoi(text.substr(first + 9)) + std::stoi(text.substr(second + 9)))
        << text;
    ++seen;
  }
  EXPECT_GT(seen, 50u);
}

TEST(Corpus, FilesAreTheSameBytesAndHeldOutQuestionsStayOut) {
  const butterfly::testing::TempDir dir;
  const CorpusOptions options{.seed = 5, .items = 3000, .valid_items = 100, .question_items = 60};
  const CorpusReport report = write_corpus(dir / "a", options);
  write_corpus(dir / "b", options);
  EXPECT_EQ(report.items, 3000u);
  for (const char* file : {"train.jsonl", "valid.jsonl", "questions.jsonl"})
    EXPECT_EQ(read_file(dir / "a" / file), read_file(dir / "b" / file)) << file;
  const std::string train = read_file(dir / "a" / "train.jsonl");
  EXPECT_EQ(train.size(), report.bytes);
  std::istringstream questions(read_file(dir / "a" / "questions.jsonl"));
  size_t count = 0;
  for (std::string line; std::getline(questions, line); ++count) {
    const size_t begin = line.find("\"question\":\"") + 12;
    const std::string question = line.substr(begin, line.find("\",\"answer\"") - begin);
    EXPECT_TRUE(is_held_out(question));
    EXPECT_EQ(train.find(question), std::string::npos) << question;
  }
  EXPECT_EQ(count, 60u);
}

TEST(Corpus, ConversationsHaveSeveralTurnsAndAllItems) {
  const butterfly::testing::TempDir dir;
  CorpusOptions options{.seed = 5, .items = 2000, .valid_items = 10, .question_items = 10, .turns_max = 4};
  EXPECT_EQ(write_corpus(dir / "a", options).items, 2000u);
  std::istringstream lines(read_file(dir / "a" / "train.jsonl"));
  std::map<size_t, size_t> turns;
  size_t items = 0;
  for (std::string line; std::getline(lines, line);) {
    size_t count = 0;
    for (size_t at = 0; (at = line.find("\"user\"", at)) != std::string::npos; ++at) ++count;
    ++turns[count];
    items += std::max<size_t>(1, count);
  }
  EXPECT_EQ(items, 2000u);
  for (size_t n = 0; n <= 4; ++n) EXPECT_GT(turns[n], 10u) << n;
  EXPECT_EQ(turns.size(), 5u);
}

// About one in ten of every kind, so that the evaluation asks for all of them.
TEST(Corpus, EveryKindHasHeldOutQuestions) {
  std::map<std::string, std::pair<int, int>> kinds;
  for (uint64_t i = 0; i < 20000; ++i) {
    const CorpusItem item = corpus_item(1, i);
    if (item.kind == "story" || item.kind == "talk") continue;
    auto& [out, all] = kinds[item.kind];
    out += is_held_out(item.question);
    ++all;
  }
  for (const auto& [kind, counts] : kinds) {
    EXPECT_GT(counts.first, counts.second / 40) << kind;
    EXPECT_LT(counts.first, counts.second / 4) << kind;
  }
}

}  // namespace
}  // namespace butterfly::train
