// Merges against a published reference and against a slow plain trainer; what is learned works as a
// tokenizer.
#include "train/tokenizer/tokenizer_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/testing/source_tree.h"
#include "model/tokenizer/byte_level.h"
#include "model/tokenizer/hf_tokenizer.h"
#include "model/tokenizer/tokenizer.h"
#include "train/tokenizer/tokenizer_json.h"

namespace butterfly::train {
namespace {

using Merges = std::vector<std::pair<std::string, std::string>>;

std::string read_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Counts all pairs of all words before every merge.
Merges plain_merges(const std::vector<std::string>& words, size_t count) {
  std::vector<std::vector<std::string>> split;
  for (const std::string& word : words) {
    split.emplace_back();
    for (const char c : word) split.back().emplace_back(1, c);
  }
  Merges merges;
  while (merges.size() < count) {
    std::map<std::pair<std::string, std::string>, int> pairs;
    for (const auto& word : split)
      for (size_t i = 1; i < word.size(); ++i) ++pairs[{word[i - 1], word[i]}];
    if (pairs.empty()) break;
    auto best = pairs.begin();
    for (auto it = pairs.begin(); it != pairs.end(); ++it)
      if (it->second >= best->second) best = it;  // later in the map: greater
    const auto pair = best->first;
    merges.push_back(pair);
    for (auto& word : split)
      for (size_t i = 1; i < word.size(); ++i)
        if (word[i - 1] == pair.first && word[i] == pair.second) {
          word[i - 1] += word[i];
          word.erase(word.begin() + static_cast<ptrdiff_t>(i));
        }
  }
  return merges;
}

TEST(BpeTrainer, EqualsThePlainTrainer) {
  EXPECT_TRUE(rc::check([] {
    const auto words = *rc::gen::container<std::vector<std::string>>(
        rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::elementOf(std::string("aabbc")))));
    BpeTrainer trainer({.vocabulary = 256 + 12, .special = {}});
    std::string text;
    std::vector<std::string> cut;
    for (const std::string& word : words) {
      text += " " + word;
      cut.push_back(" " + word);
    }
    trainer.add_text(text);
    RC_ASSERT(trainer.train().merges == plain_merges(cut, 12));
  }));
}

TEST(BpeTrainer, LearnsTheReference) {
  const std::filesystem::path folder = shared_data("bpe-training");
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  BpeTrainer trainer({.vocabulary = 500, .special = {"<|endoftext|>"}});
  trainer.add_text(read_file(folder / "corpus.en.txt"));
  const BpeVocabulary vocabulary = trainer.train();
  std::ostringstream merges;
  for (const auto& [left, right] : vocabulary.merges)
    merges << model::to_byte_letters(left) << ' ' << model::to_byte_letters(right) << '\n';
  EXPECT_EQ(merges.str(), read_file(folder / "train-bpe-reference-merges.txt"));

  // The vocabulary is "text": id in order, one to a line.
  std::istringstream expected(read_file(folder / "train-bpe-reference-vocab.json"));
  std::vector<std::string> texts = vocabulary.special;
  for (const std::string& token : vocabulary.tokens) texts.push_back(model::to_byte_letters(token));
  ASSERT_EQ(texts.size(), 500u);
  size_t id = 0;
  for (std::string line; std::getline(expected, line);) {
    const size_t colon = line.rfind("\": ");
    if (colon == std::string::npos) continue;
    std::string text = line.substr(5, colon - 5);
    if (text == "\\\"" || text == "\\\\") text.erase(0, 1);
    ASSERT_EQ(texts[id], text) << "id " << id;
    ++id;
  }
  EXPECT_EQ(id, 500u);
}

TEST(BpeTrainer, TheOrderOfTextsDoesNotMatter) {
  BpeTrainer one({.vocabulary = 280}), two({.vocabulary = 280});
  one.add_text("the cat sat on the mat");
  one.add_text(" the dog saw that cat");
  two.add_text(" the dog saw that cat");
  two.add_text("the cat sat on the mat");
  EXPECT_EQ(one.train().merges, two.train().merges);
}

TEST(BpeTrainer, WhatIsLearnedIsATokenizer) {
  BpeTrainer trainer({.vocabulary = 300, .special = {"<s>", "</s>"}, .pre_tokenizer = "qwen2"});
  trainer.add_text("a story <s>about a story</s> about 123 stories");
  model::Metadata metadata;
  const BpeVocabulary vocabulary = trainer.train();
  add_tokenizer_metadata(vocabulary, {.bos = "<s>", .eos = "</s>", .padding = ""}, metadata);
  const auto tokenizer = model::make_tokenizer(metadata);
  EXPECT_EQ(tokenizer->vocab_size(), vocabulary.size());
  EXPECT_EQ(tokenizer->bos(), 0);
  EXPECT_EQ(tokenizer->eos(), 1);
  const std::string text = "about a story, \xc3\xa9\xff 4567";
  const auto ids = tokenizer->encode(text);
  EXPECT_EQ(ids[0], 0);
  EXPECT_EQ(tokenizer->decode(ids), text);
  EXPECT_EQ(tokenizer->encode(" story", {.add_bos = false}).size(), 1u);
  EXPECT_EQ(tokenizer->encode("</s>", {.add_bos = false, .parse_special = true}), std::vector<int32_t>{1});
}

// Whichever file a tokenizer is read from, its ids are the same.
TEST(BpeTrainer, ATokenizerJsonIsTheSameTokenizer) {
  const std::string text =
      "She's sold 12345 shells,\n\n  by the \xc3\xa9tude: THEY'LL see </s> it's \xf0\x9f\x90\x9b\t!";
  for (const char* pre : {"gpt-2", "qwen2", "llama-bpe", "starcoder"}) {
    for (const char* bos : {"", "<s>"}) {
      BpeTrainer trainer({.vocabulary = 330, .special = {"<s>", "</s>"}, .pre_tokenizer = pre});
      trainer.add_text(
          "she sells sea shells by the sea shore, she's sold 12345 of them; they'll see THEM all");
      const BpeVocabulary vocabulary = trainer.train();
      const SpecialRoles roles{.bos = bos, .eos = "</s>", .padding = "</s>"};
      model::Metadata metadata;
      add_tokenizer_metadata(vocabulary, roles, metadata);
      const auto gguf = model::make_tokenizer(metadata);
      const auto json =
          model::tokenizer_from_json(tokenizer_json(vocabulary, roles), tokenizer_config_json(roles));
      EXPECT_EQ(json->vocab_size(), gguf->vocab_size());
      EXPECT_EQ(json->bos(), gguf->bos());
      EXPECT_EQ(json->eos(), gguf->eos());
      for (const bool special : {false, true}) {
        const model::EncodeOptions options{.add_bos = {}, .add_eos = {}, .parse_special = special};
        EXPECT_EQ(json->encode(text, options), gguf->encode(text, options)) << pre << " " << bos << special;
      }
      EXPECT_EQ(json->decode(json->encode(text)), text);
    }
  }
  BpeTrainer trainer({.vocabulary = 258, .special = {"<s>", "</s>"}});
  EXPECT_THROW(tokenizer_json(trainer.train(), {.bos = "<t>", .eos = "", .padding = ""}), Error);
}

TEST(BpeTrainer, AsksForWhatItNeeds) {
  EXPECT_THROW(BpeTrainer({.vocabulary = 256, .special = {"<s>"}}), Error);
  EXPECT_THROW(BpeTrainer({.vocabulary = 300, .special = {}, .pre_tokenizer = "nobody"}), Error);
  model::Metadata metadata;
  BpeTrainer trainer({.vocabulary = 256});
  EXPECT_THROW(add_tokenizer_metadata(trainer.train(), {.bos = "<s>", .eos = "", .padding = ""}, metadata),
               Error);
}

}  // namespace
}  // namespace butterfly::train
