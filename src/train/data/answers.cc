#include "train/data/answers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/tokenizer/token_places.h"

namespace butterfly::train {
namespace {

using model::ByteRange;
using Json = model::ChatJson;

// Two contents that differ in their first and their last character: whatever an answer begins and ends with,
// it differs from one of them there.
constexpr const char* kProbes[] = {"Q q", "7 z"};

ByteRange what_differs(const std::string& text, const std::string& other, ByteRange widest) {
  if (text == other) return widest;  // the answer is the probe, or the template shows neither
  const size_t shorter = std::min(text.size(), other.size());
  const auto begin = static_cast<size_t>(
      std::mismatch(text.begin(), text.begin() + static_cast<ptrdiff_t>(shorter), other.begin()).first -
      text.begin());
  size_t tail = 0;
  while (tail < shorter - begin && text[text.size() - 1 - tail] == other[other.size() - 1 - tail]) ++tail;
  return {std::min(widest.begin, begin), std::max(widest.end, text.size() - tail)};
}

bool is_blank(std::string_view piece) {
  return !piece.empty() && piece.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

}  // namespace

std::vector<ByteRange> answer_ranges(const model::ChatPrompter& chat, const Json& messages, const Json* tools,
                                     const model::RenderedChat& whole) {
  std::vector<ByteRange> ranges;
  Json changed = messages;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].value("role", "") != "assistant") continue;
    ByteRange range{whole.text.size(), 0};
    for (const char* probe : kProbes) {
      changed[i] = {{"role", "assistant"}, {"content", probe}};
      const model::RenderedChat other =
          chat.render({.messages = &changed, .tools = tools, .add_generation_prompt = false});
      range = what_differs(whole.text, other.text, range);
    }
    changed[i] = messages[i];
    ranges.push_back({range.begin, std::max(range.begin, range.end)});
  }
  return ranges;
}

std::vector<bool> learned_ids(const model::Tokenizer& tokenizer, std::span<const int32_t> ids,
                              const std::string& text, std::span<const ByteRange> answers) {
  const auto places = model::token_places(tokenizer, ids, text);
  if (!places)
    fail(Errc::kUnsupported,
         "answers cannot be told from questions, because the tokenizer changes the text; set "
         "train_on_inputs: true");
  std::vector<bool> learned(ids.size());
  for (const ByteRange& answer : answers) {
    size_t i = 0;
    while (i < ids.size() && (*places)[i].end <= answer.begin) ++i;
    for (; i < ids.size() && (*places)[i].begin < answer.end; ++i) learned[i] = true;
    // What ends the turn: a control token right behind the answer, or the end of the text after a blank.
    size_t last = i;
    while (last < ids.size() && is_blank(tokenizer.piece(ids[last]))) ++last;
    if (last == ids.size()) continue;
    const bool ends = tokenizer.is_end_of_generation(ids[last]) ||
                      (last == i && tokenizer.type(ids[last]) == model::TokenType::kControl);
    if (ends)
      std::fill(learned.begin() + static_cast<ptrdiff_t>(i),
                learned.begin() + static_cast<ptrdiff_t>(last) + 1, true);
  }
  return learned;
}

}  // namespace butterfly::train
