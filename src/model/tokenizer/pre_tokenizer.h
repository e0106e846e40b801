// How a text is cut into words before the merges of byte-level BPE: one row per name in
// pre_tokenizer_table.cc.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "model/tokenizer/regex.h"

namespace butterfly::model {

// What a step does with what its expression finds.
enum class SplitKind : uint8_t {
  kIsolate,  // a match is a piece, and so is what lies between matches
  // Groups of three characters in a match, counted from its end:
  kIsolateInThrees,  // each group is a piece, and so is what lies between matches
  kCutBeforeThrees,  // a cut before each full group; what follows a match stays with its last group
  kCutBehindThrees,  // a cut behind each group; what precedes a match stays with its first group
};

struct SplitStep {
  std::string_view regex;
  SplitKind kind = SplitKind::kIsolate;
};

// What tokenizer.ggml.pre names. Of rows with equal steps the first one is what a tokenizer.json gets.
struct PreTokenizerRow {
  std::span<const std::string_view> names;
  std::span<const SplitStep> steps;            // as llama.cpp cuts
  std::span<const std::string_view> original;  // the expressions of the models' own tokenizer.json, in order
  bool original_differs = false;  // `steps` is only close to `original` (case of letters beyond ASCII)
  std::span<const SplitStep> original_steps =
      {};                      // what `original` does, where plain expressions would be slow
  bool ignore_merges = false;  // a word that is a token is that token, whatever the merges say
  bool add_bos = false;        // unless the file says otherwise
  bool add_sep = false;        // eos after the text, in the manner of BERT
  bool raw_text = false;       // tokens are UTF-8 with U+2581 for spaces, not GPT-2's byte letters
  bool escape_spaces = false;  // with raw_text
};

std::span<const PreTokenizerRow> pre_tokenizer_rows();
const PreTokenizerRow* find_pre_tokenizer(std::string_view name);  // null: unknown

// GPT-2's expression, which tokenizer.json means by ByteLevel with use_regex.
extern const std::string_view kGpt2Regex;

// A row compiled. Immutable and shared by threads.
class PreTokenizer {
 public:
  PreTokenizer(const PreTokenizerRow& row, bool use_original);

  class Session {
   public:
    explicit Session(const PreTokenizer& pre_tokenizer);
    // Calls word() for each piece in order; together they are `text`. Bytes that are no UTF-8 are pieces of
    // their own. Linear in the text.
    void split(std::string_view text, FunctionRef<void(std::string_view)> word);

   private:
    void split_from(size_t step, std::string_view text, FunctionRef<void(std::string_view)> word);
    void split_threes(size_t step, std::string_view text, FunctionRef<void(std::string_view)> word);

    const PreTokenizer& pre_;
    std::vector<Regex::Scratch> scratch_;
  };

 private:
  struct Step {
    Regex regex;
    SplitKind kind;
  };
  std::vector<Step> steps_;
};

}  // namespace butterfly::model
