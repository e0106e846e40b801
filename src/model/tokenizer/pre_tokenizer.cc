#include "model/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <cstring>

#include "base/utf8.h"

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
  const bool original = use_original && row.original_differs;
  if (original && row.original_steps.empty()) {
    for (const std::string_view regex : row.original) steps_.push_back({Regex(regex), SplitKind::kIsolate});
  } else {
    for (const SplitStep& step : original ? row.original_steps : row.steps)
      steps_.push_back({Regex(step.regex), step.kind});
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
  if (rule.kind != SplitKind::kIsolate) return split_threes(step, text, word);
  size_t done = 0;
  while (done < text.size()) {
    const Regex::Match match = rule.regex.find(text, done, scratch_[step]);
    if (match.begin >= text.size()) break;
    const size_t end = std::max(match.end, match.begin + 1);  // no row has empty matches
    if (match.begin > done) split_from(step + 1, text.substr(done, match.begin - done), word);
    split_from(step + 1, text.substr(match.begin, end - match.begin), word);
    done = end;
  }
  if (done < text.size()) split_from(step + 1, text.substr(done), word);
}

void PreTokenizer::Session::split_threes(size_t step, std::string_view text,
                                         FunctionRef<void(std::string_view)> word) {
  const Step& rule = pre_.steps_[step];
  size_t done = 0;
  const auto cut = [&](size_t at) {
    if (at > done) split_from(step + 1, text.substr(done, at - done), word);
    done = std::max(done, at);
  };
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  for (size_t from = 0; from < text.size();) {
    const Regex::Match match = rule.regex.find(text, from, scratch_[step]);
    if (match.begin >= text.size()) break;
    from = std::max(match.end, match.begin + 1);
    auto left = static_cast<size_t>(
        std::count_if(text.begin() + match.begin, text.begin() + from, begins));  // characters up to its end
    const bool cut_begin = rule.kind == SplitKind::kIsolateInThrees ||
                           (rule.kind == SplitKind::kCutBeforeThrees && left % 3 == 0);
    if (cut_begin) cut(match.begin);
    for (size_t at = match.begin + 1; at < from; ++at)
      if (begins(text[at]) && --left % 3 == 0) cut(at);
    if (rule.kind != SplitKind::kCutBeforeThrees) cut(from);
  }
  cut(text.size());
}

}  // namespace butterfly::model
