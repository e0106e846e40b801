// Which row of the pre-tokenizer table a tokenizer.json means: the expressions must be the same, in order.
#include "base/error.h"
#include "base/printable.h"
#include "model/tokenizer/hf_parts.h"
#include "model/tokenizer/pre_tokenizer.h"

namespace butterfly::model {
namespace {

// Line ends stand in files as characters or as escapes.
std::string with_escapes(const std::string& regex) {
  std::string result;
  for (const char c : regex) {
    if (c == '\r')
      result += "\\r";
    else if (c == '\n')
      result += "\\n";
    else
      result += c;
  }
  return result;
}

[[noreturn]] void refuse(const std::string& source, const std::string& what) {
  fail(Errc::kUnsupported, "{}: pre_tokenizer: expected one of a known model, found {}", source, what);
}

// The step as an expression whose matches are set apart; empty if it cuts nothing.
std::string step_regex(const Json& step, const std::string& source) {
  const std::string type = json_string(step, "type", source + ": pre_tokenizer");
  if (type == "ByteLevel") {
    if (json_flag(step, "add_prefix_space", false))
      refuse(source, "ByteLevel with add_prefix_space, which GGUF cannot say");
    return json_flag(step, "use_regex", true) ? std::string(kGpt2Regex) : "";
  }
  if (type == "Digits") return json_flag(step, "individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)";
  if (type == "Punctuation") {
    const std::string behavior = json_string_or(step, "behavior", "Isolated");
    if (behavior == "Isolated") return R"([\p{P}!-/:-@\[-`{-~])";
    if (behavior == "Contiguous") return R"([\p{P}!-/:-@\[-`{-~]+)";
    refuse(source, "Punctuation with behavior " + printable(behavior));
  }
  if (type == "Split") {
    const std::string behavior = json_string_or(step, "behavior", "Isolated");
    const bool invert = json_flag(step, "invert", false);
    // "Removed" with invert keeps the matches, and published expressions match every character.
    const bool keeps_matches = (behavior == "Isolated" && !invert) || (behavior == "Removed" && invert);
    if (!keeps_matches)
      refuse(source, "Split with behavior " + printable(behavior) + (invert ? ", inverted" : ""));
    const Json& pattern = json_at(step, "pattern", source + ": pre_tokenizer Split");
    if (!pattern.is_object() || !pattern.contains("Regex")) refuse(source, "Split at a plain string");
    return with_escapes(json_string(pattern, "Regex", source + ": pre_tokenizer Split"));
  }
  refuse(source, "type " + printable(type));
}

}  // namespace

std::string recognise_pre_tokenizer(const Json& root, bool ignore_merges, const std::string& source) {
  std::vector<std::string> found;
  for (const Json* step : json_sequence(root, "pre_tokenizer", "pretokenizers")) {
    std::string regex = step_regex(*step, source);
    if (!regex.empty()) found.push_back(std::move(regex));
  }
  const PreTokenizerRow* other_merges = nullptr;
  for (const PreTokenizerRow& row : pre_tokenizer_rows()) {
    if (row.original.empty() ||
        !std::equal(found.begin(), found.end(), row.original.begin(), row.original.end()))
      continue;
    if (row.ignore_merges == ignore_merges) return std::string(row.names.front());
    other_merges = &row;
  }
  std::string words;
  for (const std::string& regex : found) words += (words.empty() ? "" : ", ") + printable(regex, 200);
  if (other_merges)
    refuse(source, std::string("the expressions of ") + std::string(other_merges->names.front()) +
                       ", but ignore_merges " + (ignore_merges ? "true" : "false"));
  refuse(source, found.empty() ? "none" : words);
}

}  // namespace butterfly::model
