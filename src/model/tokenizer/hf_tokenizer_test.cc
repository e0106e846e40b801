#include "model/tokenizer/hf_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/testing/source_tree.h"
#include "model/tokenizer/vector_files.h"

namespace butterfly::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A byte-level tokenizer of "a", "b", "ab"; `more` replaces or adds top-level parts.
std::string byte_level(const std::string& more = R"("normalizer": null)") {
  return R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]},
    "added_tokens": [{"id": 4, "content": "<e>", "special": true}, {"id": 3, "content": "<u>", "lstrip": true}], )" +
         more + "}";
}

std::string error_of(const std::string& json, const std::string& config = "") {
  try {
    tokenizer_from_json(json, config, "t.json");
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(HfTokenizer, ByteLevelBecomesGgufKeys) {
  Metadata metadata("t.json");
  metadata.add("general.architecture", std::string("qwen2"));
  metadata.add("qwen2.vocab_size", uint32_t{7});
  add_tokenizer_metadata_from_json(byte_level(),
                                   R"({"eos_token": {"content": "<e>"}, "add_bos_token": false})", metadata);
  EXPECT_EQ(metadata.string("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(metadata.string("tokenizer.ggml.pre"), "gpt-2");
  EXPECT_THAT(metadata.strings("tokenizer.ggml.tokens"),
              ElementsAre("a", "b", "ab", "<u>", "<e>", "[PAD5]", "[PAD6]"));
  EXPECT_THAT(metadata.i32s("tokenizer.ggml.token_type"), ElementsAre(1, 1, 1, 4, 3, 5, 5));
  EXPECT_THAT(metadata.strings("tokenizer.ggml.merges"), ElementsAre("a b"));
  EXPECT_EQ(metadata.u32("tokenizer.ggml.eos_token_id"), 4u);
  EXPECT_FALSE(metadata.boolean("tokenizer.ggml.add_bos_token"));
  const auto t = make_tokenizer(metadata);
  EXPECT_THAT(t->encode("ab<u>"), ElementsAre(2, 3));
}

TEST(HfTokenizer, SpecialTokensAroundTheTextByTemplate) {
  const auto t = tokenizer_from_json(byte_level(
      R"("post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "TemplateProcessing",
         "single": [{"SpecialToken": {"id": "<e>"}}, {"Sequence": {"id": "A"}}]}]})"));
  EXPECT_THAT(t->encode("ab"), ElementsAre(4, 2));
  EXPECT_EQ(t->bos(), 4);
  EXPECT_FALSE(t->adds_eos());
}

TEST(HfTokenizer, UnigramAndWordPiece) {
  const auto unigram = tokenizer_from_json(
      R"({"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
          "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["▁", -2], ["▁a", -1], ["b", -3.5]]}})");
  EXPECT_THAT(unigram->encode("ab b", {.add_eos = false}), ElementsAre(2, 3, 1, 3));
  const auto words = tokenizer_from_json(
      R"({"normalizer": {"type": "BertNormalizer", "lowercase": true}, "pre_tokenizer": {"type": "BertPreTokenizer"},
          "added_tokens": [{"id": 0, "content": "[UNK]", "special": true}],
          "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "a": 1, "##b": 2}}})");
  EXPECT_THAT(words->encode("AB b", {.add_bos = false, .add_eos = false}), ElementsAre(1, 2, 0));
}

// The normalizer gives "<u>" a space too, so it is found only behind one, which is then its own.
TEST(HfTokenizer, NormalisedTokensAreFoundInTheNormalisedText) {
  const auto json = [](const char* normalized) {
    return std::string(
               R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
      "model": {"type": "BPE", "unk_token": "<u>", "vocab": {"<u>": 0, "▁": 1, "a": 2, "▁a": 3}, "merges": [["▁", "a"]]},
      "added_tokens": [{"id": 0, "content": "<u>", "special": true, "normalized": )") +
           normalized + "}]}";
  };
  const auto t = tokenizer_from_json(json("true"));
  const auto ids = [&](std::string_view text) {
    return t->encode(text, {.add_bos = false, .parse_special = true});
  };
  EXPECT_THAT(ids("a <u> a"), ElementsAre(3, 0, 3));
  EXPECT_THAT(ids("<u>a"), ElementsAre(0, 2));       // the text's own prefix is part of it
  EXPECT_THAT(ids(" <u> a"), ElementsAre(1, 0, 3));  // one of two spaces
  EXPECT_THAT(ids("a <u> <u>"), ElementsAre(3, 0, 0));
  EXPECT_THAT(ids("a <u><u>a"), ElementsAre(3, 0, 0, 2));  // the second: letters nobody knows
  EXPECT_THAT(ids("a<u>a"), ElementsAre(3, 0, 2));
  // As found in the raw text: each stretch of text has a prefix of its own.
  EXPECT_THAT(
      tokenizer_from_json(json("false"))->encode("a <u> a", {.add_bos = false, .parse_special = true}),
      ElementsAre(3, 1, 0, 1, 3));
}

// SentencePiece's model of characters: pieces (field 1) with text and type, trainer_spec (2) with
// model_type 4.
TEST(HfTokenizer, SentencePieceOfCharacters) {
  const auto piece = [](std::string_view text, char type) {
    const std::string body =
        std::string("\x0a") + static_cast<char>(text.size()) + std::string(text) + "\x18" + type;
    return std::string("\x0a") + static_cast<char>(body.size()) + body;
  };
  const std::string model = piece("<unk>", 2) + piece("<s>", 3) + piece("</s>", 3) +
                            piece("\xe2\x96\x81", 1) + piece("a", 1) + piece("b", 1) +
                            std::string("\x12\x02\x18\x04");
  const auto t = tokenizer_from_sentencepiece(std::as_bytes(std::span(model)), "t.model");
  EXPECT_THAT(t->encode("ab zza", {.add_bos = false, .add_eos = false}), ElementsAre(3, 4, 5, 3, 0, 4));
  EXPECT_EQ(t->decode(std::vector<int32_t>{3, 4, 5}), "ab");
}

TEST(HfTokenizer, WhatIsNotSupportedIsNamed) {
  EXPECT_THAT(error_of("[1"), HasSubstr("t.json: expected JSON"));
  EXPECT_THAT(error_of("[]"), HasSubstr("expected an object with 'model'"));
  EXPECT_THAT(error_of(R"({"model": {"type": "WordLevel"}})"),
              HasSubstr("model.type: not supported: WordLevel"));
  EXPECT_THAT(error_of(byte_level(R"("normalizer": {"type": "NFKC"})")),
              HasSubstr("normalizer: not supported: NFKC"));
  EXPECT_THAT(error_of(byte_level(R"("pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "x+"}, "behavior": "Isolated"}, {"type": "ByteLevel", "use_regex": false}]})")),
              HasSubstr("expected one of a known model, found x+"));
  EXPECT_THAT(error_of(R"({"model": {"type": "BPE", "vocab": {"a": 4000000000}, "merges": []}})"),
              HasSubstr("token 'a': expected an id below"));
  EXPECT_THAT(error_of(byte_level(R"("added_tokens": [{"id": -1, "content": "x"}])")),
              HasSubstr("added_tokens: id"));
}

TEST(HfTokenizer, SentencePieceBytesThatAreNone) {
  const auto error = [](std::string_view text) {
    try {
      tokenizer_from_sentencepiece(std::as_bytes(std::span(text)), "t.model");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(error(""), HasSubstr("t.model: SentencePiece model at byte 0: expected pieces, found none"));
  EXPECT_THAT(error("\x0a\x7f"
                    "abc"),
              HasSubstr("expected 127 bytes, found 3"));
  EXPECT_THAT(error("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), HasSubstr("at most 10 bytes"));
  EXPECT_THAT(error("\x0f"), HasSubstr("wire type"));
}

// What the fuzzers start from: every file is a tokenizer that works, or an Error.
TEST(HfTokenizer, FuzzSeeds) {
  namespace fs = std::filesystem;
  const fs::path folder = source_path("src/model/tokenizer");
  size_t working = 0;
  for (const char* kind : {"tokenizer_json_fuzz_corpus", "sentencepiece_fuzz_corpus"}) {
    for (const auto& entry : fs::directory_iterator(folder / kind)) {
      const std::string bytes = read_whole_file(entry.path());
      try {
        const auto t = entry.path().extension() == ".json"
                           ? tokenizer_from_json(bytes)
                           : tokenizer_from_sentencepiece(std::as_bytes(std::span(bytes)));
        EXPECT_FALSE(t->encode("at at", {.parse_special = true}).empty()) << entry.path();
        ++working;
      } catch (const Error& e) {
        ADD_FAILURE() << entry.path() << ": " << e.what();
      }
    }
  }
  EXPECT_EQ(working, 6u);
}

}  // namespace
}  // namespace butterfly::model
