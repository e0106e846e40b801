// The kinds of tokenizer a model file can name.
#include "base/error.h"
#include "base/printable.h"
#include "model/tokenizer/bpe.h"
#include "model/tokenizer/spm.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/unigram.h"
#include "model/tokenizer/word_piece.h"

namespace butterfly::model {
namespace {

constexpr TokenizerModel kModels[] = {
    {"llama", "SentencePiece BPE with byte fallback", SpmTokenizer::make},
    {"gpt2", "byte-level BPE", BpeTokenizer::make},
    {"gemma4", "BPE with byte fallback", BpeTokenizer::make_gemma4},
    {"bert", "WordPiece", WordPieceTokenizer::make},
    {"t5", "SentencePiece unigram", UnigramTokenizer::make},
    {"rwkv", "RWKV trie", nullptr},
};

}  // namespace

std::span<const TokenizerModel> tokenizer_models() { return kModels; }

std::unique_ptr<Tokenizer> make_tokenizer(const Metadata& metadata) {
  if (metadata.has(kTokenizerWhyNotKey)) fail(Errc::kUnsupported, "{}", metadata.string(kTokenizerWhyNotKey));
  const std::string& name = metadata.string("tokenizer.ggml.model");
  for (const TokenizerModel& row : kModels) {
    if (row.name != name) continue;
    if (!row.make)
      fail(Errc::kUnsupported, "{}: not supported yet: tokenizer model '{}' ({})", metadata.source(),
           row.name, row.words);
    return row.make(metadata);
  }
  fail(Errc::kUnsupported, "{}: key tokenizer.ggml.model: expected a known tokenizer model, found '{}'",
       metadata.source(), printable(name));
}

}  // namespace butterfly::model
