// Unigram against SentencePiece itself: it trains small models with each normalization and says the ids.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/mapped_file.h"
#include "base/testing/source_tree.h"
#include "base/testing/temp_dir.h"
#include "model/tokenizer/hf_tokenizer.h"
#include "model/tokenizer/vector_files.h"

namespace butterfly::model {
namespace {

namespace fs = std::filesystem;
const fs::path kData = shared_data();

constexpr const char* kScript = R"(import json, sys
import sentencepiece as spm
data, out = sys.argv[1:]
texts = [json.loads(line)["text"] for line in open(data + "/tokenizers/llama2-spm/vectors.jsonl")]
with open(out + "/train.txt", "w") as f:
    f.write(open(data + "/datasets/text/tinyshakespeare.txt").read()[:300000] + "\n" + "\n".join(texts[:150]))
models = {
    "nfkc": dict(normalization_rule_name="nmt_nfkc"),
    "bytes": dict(byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False),
    "fold": dict(normalization_rule_name="nmt_nfkc_cf", add_dummy_prefix=False),
    "characters": dict(model_type="char", character_coverage=0.999),
}
for name, options in models.items():
    options = dict(model_type="unigram", vocab_size=2000) | options
    spm.SentencePieceTrainer.train(input=out + "/train.txt", model_prefix=out + "/" + name, minloglevel=2,
                                   hard_vocab_limit=False, **options)
    model = spm.SentencePieceProcessor(model_file=out + "/" + name + ".model")
    with open(out + "/" + name + ".jsonl", "w") as f:
        for text in texts:
            f.write(json.dumps({"text": text, "ids": model.encode(text)}) + "\n")
)";

TEST(UnigramOracle, SentencePieceGivesTheSameIds) {
  if (!fs::exists(kData)) GTEST_SKIP() << "no " << kData;
  if (std::system("/usr/bin/python3 -c 'import sentencepiece' 2>/dev/null") != 0)
    GTEST_SKIP() << "no python3-sentencepiece";
  const testing::TempDir folder;
  std::ofstream(folder.path() / "oracle.py") << kScript;
  const std::string command = "/usr/bin/python3 '" + (folder.path() / "oracle.py").string() + "' '" +
                              kData.string() + "' '" + folder.path().string() + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  for (const char* name : {"nfkc", "bytes", "fold", "characters"}) {
    const auto file = MappedFile::open(folder.path() / (std::string(name) + ".model"));
    const auto tokenizer = tokenizer_from_sentencepiece(file->bytes());
    size_t checked = 0;
    for (const TokenVector& vector : read_jsonl_vectors(folder.path() / (std::string(name) + ".jsonl"))) {
      EXPECT_EQ(tokenizer->encode(vector.text, {.add_bos = false, .add_eos = false}), vector.ids)
          << name << ": " << vector.text;
      ++checked;
    }
    EXPECT_EQ(checked, 352u);
  }
}

}  // namespace
}  // namespace butterfly::model
