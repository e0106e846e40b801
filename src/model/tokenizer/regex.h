// One regular expression of a pre-tokenizer, compiled by PCRE2 with JIT, over UTF-8.
#pragma once
#include <cstddef>
#include <memory>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;

namespace butterfly::model {

// Immutable; threads share it, each with a RegexScratch of its own.
//
// \s and \S mean Unicode's White_Space, as they do for the libraries that define tokenizers (PCRE2's own has
// U+180E too). `$` is the end of the text only.
class Regex {
 public:
  // Throws Error kUnsupported if PCRE2 refuses the pattern.
  explicit Regex(std::string_view pattern);

  struct Scratch;
  struct Match {
    size_t begin = std::string_view::npos;  // npos: none
    size_t end = std::string_view::npos;
  };
  // The leftmost match at or after `from`. `text` must be valid UTF-8. Throws Error kOutOfMemory when a match
  // needs more memory than PCRE2 allows itself.
  Match find(std::string_view text, size_t from, Scratch& scratch) const;

 private:
  friend struct Scratch;
  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::unique_ptr<pcre2_real_code_8, FreeCode> code_;
  bool jit_ = false;
};

// Where PCRE2 puts what it found; for one thread at a time.
struct Regex::Scratch {
  explicit Scratch(const Regex& regex);

 private:
  friend class Regex;
  struct Free {
    void operator()(pcre2_real_match_data_8* data) const;
  };
  std::unique_ptr<pcre2_real_match_data_8, Free> data_;
};

}  // namespace butterfly::model
