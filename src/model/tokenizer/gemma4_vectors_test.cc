// The tokenizer of gemma4 (merges of characters, byte tokens for what is no piece) against ids that
// SentencePiece and llama.cpp give. Its own vocabulary is not at hand, so it gets that of Llama 2, whose
// pieces become merges as Hugging Face makes them: of every piece all its halves, in the order of the pieces.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>

#include "base/testing/source_tree.h"
#include "model/formats/model_file.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/vector_files.h"

namespace butterfly::model {
namespace {

const std::filesystem::path kLlama2 = shared_data() / "tokenizers/llama2-spm";

std::vector<std::string> merges_of(std::span<const std::string> pieces, std::span<const float> scores) {
  std::map<std::string, size_t> ids;
  for (size_t id = 259; id < pieces.size(); ++id) ids.emplace(pieces[id], id);  // behind control and bytes
  std::vector<size_t> best_first;
  for (size_t id = 259; id < pieces.size(); ++id) best_first.push_back(id);
  std::ranges::stable_sort(best_first, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  std::vector<std::string> merges;
  for (const size_t id : best_first) {
    const std::string& piece = pieces[id];
    std::vector<std::pair<size_t, size_t>> halves;
    for (size_t cut = 1; cut < piece.size(); ++cut) {
      if ((piece[cut] & 0xc0) == 0x80) continue;  // within a character
      const auto left = ids.find(piece.substr(0, cut)), right = ids.find(piece.substr(cut));
      if (left != ids.end() && right != ids.end()) halves.emplace_back(left->second, right->second);
    }
    std::ranges::sort(halves);
    for (const auto& [left, right] : halves) merges.push_back(pieces[left] + " " + pieces[right]);
  }
  return merges;
}

TEST(Gemma4Vectors, PiecesAndBytesOfTrickyTexts) {
  if (!std::filesystem::exists(kLlama2)) GTEST_SKIP() << "no " << kLlama2;
  Metadata metadata = open_model(kLlama2 / "ggml-vocab-llama-spm.gguf").metadata();
  metadata.set("tokenizer.ggml.merges",
               MetaArray{MetaType::kString, merges_of(metadata.strings("tokenizer.ggml.tokens"),
                                                      metadata.f32s("tokenizer.ggml.scores"))});
  metadata.set("tokenizer.ggml.model", std::string("gemma4"));
  const auto tokenizer = make_tokenizer(metadata);
  auto vectors = read_jsonl_vectors(kLlama2 / "vectors.jsonl");
  const auto more = read_llama_cpp_vectors(kLlama2 / "ggml-vocab-llama-spm.gguf");
  vectors.insert(vectors.end(), more.begin(), more.end());
  size_t checked = 0;
  for (const TokenVector& vector : vectors) {
    if (vector.text.empty()) continue;
    // Llama 2 puts a space in front of every text, gemma4 does not.
    EXPECT_EQ(tokenizer->encode(" " + vector.text, {.add_bos = false}), vector.ids) << vector.text;
    if (vector.decoded == vector.text) {
      EXPECT_EQ(tokenizer->decode(vector.ids), " " + vector.text);
    }
    ++checked;
  }
  EXPECT_GT(checked, 300u);
}

}  // namespace
}  // namespace butterfly::model
