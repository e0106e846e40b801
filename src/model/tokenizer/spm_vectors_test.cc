// Published vocabularies against the ids that SentencePiece, llama.cpp and llama2.c give.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file_text.h"
#include "base/json_text.h"
#include "base/testing/source_tree.h"
#include "model/formats/llama2c.h"
#include "model/formats/model_file.h"
#include "model/tokenizer/tokenizer.h"

namespace butterfly::model {
namespace {

const std::filesystem::path kData = shared_data();
const std::filesystem::path kLlama2 = kData / "tokenizers/llama2-spm";

using Ids = std::vector<int32_t>;

std::vector<std::string> split(const std::string& text, const std::string& at) {
  std::vector<std::string> parts;
  size_t from = 0;
  for (size_t to; (to = text.find(at, from)) != std::string::npos; from = to + at.size())
    parts.push_back(text.substr(from, to - from));
  parts.push_back(text.substr(from));
  return parts;
}

class SpmVectors : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kData)) GTEST_SKIP() << "no " << kData;
  }
  // From the GGUF, and from llama2.c's form of the same vocabulary.
  static std::vector<std::unique_ptr<Tokenizer>> llama2() {
    std::vector<std::unique_ptr<Tokenizer>> result;
    result.push_back(make_tokenizer(open_model(kLlama2 / "ggml-vocab-llama-spm.gguf").metadata()));
    Metadata metadata("tokenizer.bin");
    llama2c_add_tokenizer(kLlama2 / "tokenizer.bin", 32000, metadata);
    result.push_back(make_tokenizer(metadata));
    return result;
  }
};

TEST_F(SpmVectors, LlamaCpp) {
  auto inputs = split(read_text_file(kLlama2 / "ggml-vocab-llama-spm.gguf.inp"), "\n__ggml_vocab_test__\n");
  inputs.pop_back();  // what follows the last separator
  const auto outputs = split(read_text_file(kLlama2 / "ggml-vocab-llama-spm.gguf.out"), "\n");
  for (const auto& tokenizer : llama2()) {
    size_t checked = 0;
    ASSERT_LE(inputs.size(), outputs.size());
    for (size_t i = 0; i < inputs.size(); ++i, ++checked) {
      std::istringstream line(outputs[i]);
      const Ids expected{std::istream_iterator<int32_t>(line), {}};
      EXPECT_EQ(tokenizer->encode(inputs[i], {.add_bos = false}), expected)
          << "input " << i << ": " << inputs[i];
    }
    EXPECT_EQ(checked, 46u);
  }
}

TEST_F(SpmVectors, SentencePiece) {
  for (const auto& tokenizer : llama2()) {
    std::ifstream in(kLlama2 / "vectors.jsonl");
    size_t checked = 0;
    for (std::string line; std::getline(in, line); ++checked) {
      const auto vector = json_of_text<nlohmann::json>(line);
      const auto text = vector["text"].get<std::string>();
      const auto ids = vector["ids"].get<Ids>();
      EXPECT_EQ(tokenizer->encode(text, {.add_bos = false}), ids) << text;
      EXPECT_EQ(tokenizer->decode(ids), vector.value("decoded", text)) << text;
    }
    EXPECT_GT(checked, 100u);
  }
}

TEST_F(SpmVectors, Llama2c) {
  for (const auto& tokenizer : llama2()) {
    std::ifstream in(kLlama2 / "llama2c-vectors.jsonl");
    size_t checked = 0;
    for (std::string line; std::getline(in, line); ++checked) {
      const auto vector = json_of_text<nlohmann::json>(line);
      EXPECT_EQ(tokenizer->encode(vector["text"].get<std::string>()), vector["ids"].get<Ids>()) << line;
    }
    EXPECT_EQ(checked, 5u);
  }
}

TEST_F(SpmVectors, Stories260K) {
  const auto folder = kData / "models/stories260K";
  const auto greedy = json_of_text<nlohmann::json>(read_text_file(folder / "llamacpp-greedy.json"));
  const auto ids = greedy["greedy"].get<Ids>();
  const auto text = greedy["text"].get<std::string>();
  for (const char* name : {"stories260K.gguf", "stories260K.bin", "stories260K-v1.bin"}) {
    const auto tokenizer = make_tokenizer(open_model(folder / name).metadata());
    EXPECT_EQ(tokenizer->vocab_size(), 512u);
    EXPECT_EQ(tokenizer->decode(ids), text) << name;
    EXPECT_EQ(tokenizer->encode(text, {.add_bos = false}), ids) << name;
  }
}

}  // namespace
}  // namespace butterfly::model
