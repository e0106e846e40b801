// Learns a byte-level BPE vocabulary from text.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/metadata/metadata.h"
#include "model/tokenizer/pre_tokenizer.h"

namespace butterfly::train {

struct BpeOptions {
  size_t vocabulary = 1024;               // special tokens, 256 bytes and merges together
  std::vector<std::string> special = {};  // get the first ids; cut out of the texts before counting
  std::string pre_tokenizer = "gpt-2";    // a name of model/tokenizer's table
};

// Tokens are byte strings; a merge is the pair of tokens it joins.
struct BpeVocabulary {
  std::string pre_tokenizer;
  std::vector<std::string> special;
  std::vector<std::string> tokens;  // behind the special ones: 256 bytes in GPT-2's order, then one per merge
  std::vector<std::pair<std::string, std::string>> merges;
  size_t size() const { return special.size() + tokens.size(); }
};

// Counts words, then joins the most frequent pair of neighbours again and again; of equally frequent pairs
// the one that is greater byte by byte (left first). A function of the texts alone, not of their order. One
// thread.
class BpeTrainer {
 public:
  // Throws Error kInvalidArgument: an unknown pre-tokenizer, a vocabulary without room for bytes and special
  // tokens.
  explicit BpeTrainer(BpeOptions options);

  void add_text(std::string_view text);
  // Fewer merges than asked for when no pair is left.
  BpeVocabulary train() const;
  uint64_t word_count() const { return words_.size(); }  // distinct

 private:
  BpeOptions options_;
  model::PreTokenizer pre_;
  std::unordered_map<std::string, uint64_t> words_;
};

// As GGUF's tokenizer.* keys. `bos`, `eos`, `padding` name special tokens; empty: none.
struct SpecialRoles {
  std::string bos, eos, padding;
};
void add_tokenizer_metadata(const BpeVocabulary& vocabulary, const SpecialRoles& roles,
                            model::Metadata& metadata);

}  // namespace butterfly::train
