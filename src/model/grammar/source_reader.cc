#include "model/grammar/source_reader.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/utf8.h"
#include "model/grammar/limits.h"
#include "model/tokenizer/unicode_text.h"

namespace butterfly::model::grammar {

void SourceReader::bad(std::string_view what) const { fail(Errc::kInvalidArgument, "{}: {}", where(), what); }

void SourceReader::unsupported(std::string_view what) const {
  fail(Errc::kUnsupported, "{}: {} is not supported", where(), what);
}

void SourceReader::too_large(std::string_view what) const {
  fail(Errc::kOutOfMemory, "{}: {}", where(), what);
}

std::optional<uint32_t> SourceReader::count() {
  const size_t from = at_;
  uint32_t value = 0;
  while (more() && next() >= '0' && next() <= '9') {
    value = value * 10 + static_cast<uint32_t>(text_[at_++] - '0');
    if (value > kRepetitionMax) too_large(fmt::format("a repetition of more than {}", kRepetitionMax));
  }
  return at_ == from ? std::nullopt : std::optional(value);
}

uint32_t SourceReader::hex(int digits) {
  uint32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const char c = more() ? text_[at_++] : 'x';
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) bad("expected a hexadecimal digit");
    value = value * 16 + static_cast<uint32_t>(digit);
  }
  return value;
}

uint32_t SourceReader::code_point() {
  const std::string_view rest = text_.substr(at_);
  if (utf8_length(rest) == 0) bad("not UTF-8");
  const CodePoint front = front_code_point(rest);
  at_ += front.length;
  return front.value;
}

}  // namespace butterfly::model::grammar
