#include "model/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <string>

#include "base/check.h"
#include "base/error.h"

namespace butterfly::model {
namespace {

// White_Space of the Unicode standard, as the inside of a character class.
constexpr std::string_view kWhiteSpace =
    R"(\t-\r\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

// \s and \S written out. A class that holds \S has no such form and no published pattern has one.
std::string expand_white_space(std::string_view pattern) {
  std::string result;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 's' && in_class) {
        result += kWhiteSpace;
      } else if (next == 's' || (next == 'S' && !in_class)) {
        result += next == 's' ? "[" : "[^";
        result += kWhiteSpace;
        result += ']';
      } else {
        BF_CHECK(next != 'S') << "\\S inside a character class: " << pattern;
        result += c;
        result += next;
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    result += c;
  }
  return result;
}

}  // namespace

void Regex::FreeCode::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }
void Regex::Scratch::Free::operator()(pcre2_real_match_data_8* data) const { pcre2_match_data_free(data); }

Regex::Regex(std::string_view pattern) {
  const std::string expanded = expand_white_space(pattern);
  int error = 0;
  PCRE2_SIZE at = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expanded.data()), expanded.size(),
                            PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY, &error, &at, nullptr));
  if (!code_) {
    PCRE2_UCHAR words[256] = {};
    pcre2_get_error_message(error, words, sizeof(words));
    fail(Errc::kUnsupported, "regular expression {}: {} at {}", expanded, reinterpret_cast<char*>(words), at);
  }
  jit_ = pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE) == 0;
}

Regex::Scratch::Scratch(const Regex& regex)
    : data_(pcre2_match_data_create_from_pattern(regex.code_.get(), nullptr)) {
  if (!data_) fail(Errc::kOutOfMemory, "regular expression: no memory for match data");
}

Regex::Match Regex::find(std::string_view text, size_t from, Scratch& scratch) const {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  pcre2_match_data* data = scratch.data_.get();
  int found = PCRE2_ERROR_JIT_STACKLIMIT;
  if (jit_) found = pcre2_jit_match(code_.get(), subject, text.size(), from, 0, data, nullptr);
  if (found == PCRE2_ERROR_JIT_STACKLIMIT)  // the interpreter keeps its state on the heap
    found = pcre2_match(code_.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data,
                        nullptr);
  if (found == PCRE2_ERROR_NOMATCH) return {};
  if (found < 0) {
    PCRE2_UCHAR words[256] = {};
    pcre2_get_error_message(found, words, sizeof(words));
    fail(Errc::kOutOfMemory, "regular expression on a text of {} bytes: {}", text.size(),
         reinterpret_cast<char*>(words));
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data);
  return {bounds[0], bounds[1]};
}

}  // namespace butterfly::model
