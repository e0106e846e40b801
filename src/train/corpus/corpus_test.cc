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
    if (item.kind == "sum") {
      ASSERT_EQ(std::sscanf(item.answer.c_str(), "%d plus %d is %d.", &a, &b, &c), 3) << item.answer;
      EXPECT_EQ(a + b, c);
      EXPECT_THAT(item.question,
                  ::testing::HasSubstr(std::to_string(a) + " plus " + std::to_string(b) + "?"));
    }
    if (item.kind == "difference") {
      ASSERT_EQ(std::sscanf(item.answer.c_str(), "%d minus %d is %d.", &a, &b, &c), 3) << item.answer;
      EXPECT_EQ(a - b, c);
      EXPECT_GE(c, 0);
    }
  }
  EXPECT_GE(kinds.size(), 9u);
}

// In questions about who is where, the answer must be what the question says of that person.
TEST(Corpus, AnswersFollowFromTheQuestion) {
  size_t seen = 0;
  for (uint64_t i = 0; i < 4000; ++i) {
    const CorpusItem item = corpus_item(2, i);
    if (item.kind != "where") continue;
    const std::string who = item.answer.substr(0, item.answer.find(' '));
    const std::string place = item.answer.substr(item.answer.rfind(' ') + 1);
    EXPECT_THAT(item.question, ::testing::HasSubstr(who + " went to the " + place));
    ++seen;
  }
  EXPECT_GT(seen, 100u);
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

// About one in ten of every kind, so that the evaluation asks for all of them.
TEST(Corpus, EveryKindHasHeldOutQuestions) {
  std::map<std::string, std::pair<int, int>> kinds;
  for (uint64_t i = 0; i < 20000; ++i) {
    const CorpusItem item = corpus_item(1, i);
    if (item.kind == "story") continue;
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
