#include "model/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <cstring>

#include "model/tokenizer/utf8.h"

namespace butterfly::model {
namespace {

// Bytes at the front that are whole characters.
size_t valid_run(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight;
    if (text.size() - at >= sizeof(eight)) {
      std::memcpy(&eight, text.data() + at, sizeof(eight));
      if ((eight & 0x8080808080808080u) == 0) {
        at += sizeof(eight);
        continue;
      }
    }
    const size_t length = utf8_length(text.substr(at, 4));
    if (length == 0) break;
    at += length;
  }
  return at;
}

size_t invalid_run(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && utf8_length(text.substr(at, 4)) == 0) ++at;
  return at;
}

}  // namespace

const PreTokenizerRow* find_pre_tokenizer(std::string_view name) {
  for (const PreTokenizerRow& row : pre_tokenizer_rows())
    if (std::find(row.names.begin(), row.names.end(), name) != row.names.end()) return &row;
  return nullptr;
}

PreTokenizer::PreTokenizer(const PreTokenizerRow& row, bool use_original) {
  if (use_original && row.original_differs) {
    for (const std::string_view regex : row.original) steps_.push_back({Regex(regex), SplitKind::kIsolate});
  } else {
    for (const SplitStep& step : row.steps) steps_.push_back({Regex(step.regex), step.kind});
  }
}

PreTokenizer::Session::Session(const PreTokenizer& pre_tokenizer) : pre_(pre_tokenizer) {
  for (const Step& step : pre_.steps_) scratch_.emplace_back(step.regex);
}

void PreTokenizer::Session::split(std::string_view text, FunctionRef<void(std::string_view)> word) {
  while (!text.empty()) {
    const size_t valid = valid_run(text);
    if (valid > 0) split_from(0, text.substr(0, valid), word);
    text.remove_prefix(valid);
    const size_t invalid = invalid_run(text);
    if (invalid > 0) word(text.substr(0, invalid));
    text.remove_prefix(invalid);
  }
}

void PreTokenizer::Session::split_from(size_t step, std::string_view text,
                                       FunctionRef<void(std::string_view)> word) {
  if (step == pre_.steps_.size()) return word(text);
  const Step& rule = pre_.steps_[step];
  size_t done = 0;
  while (done < text.size()) {
    const Regex::Match match = rule.regex.find(text, done, scratch_[step]);
    if (match.begin >= text.size()) break;
    const size_t end = std::max(match.end, match.begin + 1);  // no row has empty matches
    if (match.begin > done) split_from(step + 1, text.substr(done, match.begin - done), word);
    split_match(step, text.substr(match.begin, end - match.begin), word);
    done = end;
  }
  if (done < text.size()) split_from(step + 1, text.substr(done), word);
}

void PreTokenizer::Session::split_match(size_t step, std::string_view match,
                                        FunctionRef<void(std::string_view)> word) {
  if (pre_.steps_[step].kind == SplitKind::kIsolate) return split_from(step + 1, match, word);
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  auto left = static_cast<size_t>(std::count_if(match.begin(), match.end(), begins));
  size_t from = 0;
  for (size_t at = 1; at <= match.size(); ++at) {
    if (at < match.size() && !begins(match[at])) continue;
    if (--left % 3 != 0) continue;
    split_from(step + 1, match.substr(from, at - from), word);
    from = at;
  }
}

}  // namespace butterfly::model
