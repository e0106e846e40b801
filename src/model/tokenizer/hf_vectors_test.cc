// Published vocabularies (tokenizer.json, tokenizer.model, GGUF) against the ids that Hugging Face's library,
// SentencePiece and llama.cpp give, id by id.
#include <gtest/gtest.h>

#include "base/mapped_file.h"
#include "base/testing/source_tree.h"
#include "model/formats/model_file.h"
#include "model/tokenizer/hf_tokenizer.h"
#include "model/tokenizer/token_stream.h"
#include "model/tokenizer/vector_files.h"

namespace butterfly::model {
namespace {

namespace fs = std::filesystem;
const fs::path kData = shared_data();

class HfVectors : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kData)) GTEST_SKIP() << "no " << kData;
  }
  static std::unique_ptr<Tokenizer> from_json(const fs::path& folder) {
    return tokenizer_from_json(read_whole_file(folder / "tokenizer.json"),
                               read_whole_file(folder / "tokenizer_config.json"));
  }
  // Special tokens that stand in a text are matched by the reference.
  static constexpr EncodeOptions kWhole{.add_bos = false, .add_eos = false, .parse_special = true};
  static constexpr EncodeOptions kPlain{.add_bos = false, .add_eos = false};

  // The number of vectors whose ids are equal; decoding must always be.
  static size_t count_equal(const Tokenizer& tokenizer, const std::vector<TokenVector>& vectors,
                            const EncodeOptions& options) {
    size_t equal = 0;
    for (const TokenVector& vector : vectors) {
      const auto ids = tokenizer.encode(vector.text, options);
      if (ids == vector.ids)
        ++equal;
      else
        ADD_FAILURE() << "text: " << vector.text << "\nfound: " << ::testing::PrintToString(ids)
                      << "\nexpected: " << ::testing::PrintToString(vector.ids);
      EXPECT_EQ(tokenizer.decode(vector.ids, {.show_special = true}), vector.decoded);
    }
    return equal;
  }
};

TEST_F(HfVectors, Gpt2) {
  const fs::path folder = kData / "tokenizers/gpt2";
  const auto json = from_json(folder);
  const auto gguf = make_tokenizer(open_model(folder / "ggml-vocab-gpt-2.gguf").metadata());
  for (const Tokenizer* tokenizer : {json.get(), gguf.get()}) {
    EXPECT_EQ(tokenizer->vocab_size(), 50257u);
    EXPECT_EQ(count_equal(*tokenizer, read_jsonl_vectors(folder / "vectors.jsonl"), kWhole), 352u);
    EXPECT_EQ(count_equal(*tokenizer, read_llama_cpp_vectors(folder / "ggml-vocab-gpt-2.gguf"), kPlain), 46u);
  }
}

TEST_F(HfVectors, Qwen25) {
  const fs::path folder = kData / "tokenizers/qwen2.5";
  const auto tokenizer = from_json(folder);
  EXPECT_EQ(tokenizer->vocab_size(), 151665u);
  EXPECT_EQ(count_equal(*tokenizer, read_jsonl_vectors(folder / "vectors.jsonl"), kWhole), 352u);
  EXPECT_EQ(count_equal(*tokenizer, read_llama_cpp_vectors(folder / "ggml-vocab-qwen2.gguf"), kPlain), 46u);
}

TEST_F(HfVectors, Llama3) {
  const fs::path folder = kData / "tokenizers/llama3";
  const auto tokenizer = from_json(folder);
  EXPECT_EQ(tokenizer->vocab_size(), 128256u);
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->bos(), 128000);
  EXPECT_EQ(count_equal(*tokenizer, read_jsonl_vectors(folder / "vectors.jsonl"), kWhole), 352u);
  EXPECT_EQ(count_equal(*tokenizer, read_llama_cpp_vectors(folder / "ggml-vocab-llama-bpe.gguf"), kPlain),
            46u);
}

// SentencePiece-style BPE in tokenizer.json, merged by rank. The reference's decoder writes " <unk>" for the
// unknown token, whose text its normalizer has given a space; what is in the text stays without it here.
TEST_F(HfVectors, TinyStories) {
  const auto tokenizer = from_json(kData / "models/tinystories-656k");
  EXPECT_EQ(tokenizer->vocab_size(), 2048u);
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_TRUE(tokenizer->adds_bos());
  auto vectors = read_jsonl_vectors(kData / "tokenizers/tinystories-656k/vectors.jsonl");
  size_t with_unknown = 0;
  for (TokenVector& vector : vectors) {
    size_t at = 0;
    for (; (at = vector.decoded.find(" <unk>", at)) != std::string::npos; ++at) vector.decoded.erase(at, 1);
    with_unknown += vector.decoded.find("<unk>") != std::string::npos;
  }
  EXPECT_EQ(with_unknown, 207u);
  EXPECT_EQ(count_equal(*tokenizer, vectors, kWhole), 352u);
}

TEST_F(HfVectors, Llama2FromSentencePiece) {
  const fs::path folder = kData / "tokenizers/llama2-spm";
  const auto tokenizer = tokenizer_from_sentencepiece(MappedFile::open(folder / "tokenizer.model")->bytes());
  EXPECT_EQ(tokenizer->vocab_size(), 32000u);
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_EQ(count_equal(*tokenizer, read_jsonl_vectors(folder / "vectors.jsonl"), kPlain), 352u);
  EXPECT_EQ(count_equal(*tokenizer, read_llama_cpp_vectors(folder / "ggml-vocab-llama-spm.gguf"), kPlain),
            46u);
}

}  // namespace
}  // namespace butterfly::model
