#include "model/tokenizer/unigram.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/utf8.h"
#include "model/tokenizer/piece_text.h"

namespace butterfly::model {
namespace {

constexpr double kUnknownPenalty = 10;  // SentencePiece's: below the worst piece

bool is_piece(TokenType type) {
  return type == TokenType::kNormal || type == TokenType::kUserDefined || type == TokenType::kUnused;
}

}  // namespace

UnigramTokenizer::UnigramTokenizer(Vocabulary vocabulary, CharsMap chars_map, bool remove_extra_spaces)
    : Tokenizer(std::move(vocabulary)),
      chars_map_(std::move(chars_map)),
      remove_extra_spaces_(remove_extra_spaces),
      special_(vocabulary_, /*space_marks=*/true) {
  const Vocabulary& v = vocabulary_;
  add_bos_ = v.add_bos.value_or(false);
  add_eos_ = v.add_eos.value_or(true);
  space_prefix_ = v.add_space_prefix.value_or(true);
  byte_tokens_.fill(-1);
  pieces_.resize(v.size());
  double worst = std::numeric_limits<double>::max();
  for (size_t i = 0; i < v.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (v.types[i] == TokenType::kByte) {
      const int byte = parse_byte_token(v.texts[i]);
      if (byte < 0) fail(Errc::kCorrupt, "{}: token {}: expected a byte token <0x00> to <0xFF>", v.source, i);
      byte_tokens_[static_cast<size_t>(byte)] = id;
      pieces_[i] = static_cast<char>(byte);
    }
    if (!is_piece(v.types[i])) continue;
    pieces_[i] = with_spaces(v.texts[i]);
    texts_.add(v.texts[i], id);
    if (v.types[i] == TokenType::kNormal) worst = std::min(worst, static_cast<double>(v.scores[i]));
  }
  unknown_score_ = (worst == std::numeric_limits<double>::max() ? 0 : worst) - kUnknownPenalty;
}

std::unique_ptr<Tokenizer> UnigramTokenizer::make(const Metadata& metadata) {
  constexpr std::string_view kMap = "tokenizer.ggml.precompiled_charsmap";
  std::vector<uint8_t> bytes;
  if (metadata.has(kMap))
    for (const int32_t value : metadata.i32s(kMap)) bytes.push_back(static_cast<uint8_t>(value));
  return std::make_unique<UnigramTokenizer>(
      Vocabulary::read(metadata), CharsMap(std::move(bytes), metadata.source()),
      metadata.boolean_or("tokenizer.ggml.remove_extra_whitespaces", false));
}

std::string UnigramTokenizer::normalize(std::string_view text, bool space_prefix) const {
  std::string result;
  bool space_due = space_prefix;  // before the next character that is none
  bool any = false;
  const auto add = [&](std::string_view characters) {
    for (const char c : characters) {
      if (c == ' ') {
        if (!remove_extra_spaces_) {
          if (space_due) result += kSpaceMark;  // the prefix
          result += kSpaceMark;
          space_due = false;
        } else if (any) {
          space_due = true;
        }
        continue;
      }
      if (space_due) result += kSpaceMark;
      space_due = false;
      any = true;
      result += c;
    }
  };
  while (!text.empty()) {
    const CharsMap::Prefix mapped = chars_map_.find(text);
    if (mapped.length > 0) {
      add(mapped.replacement);
      text.remove_prefix(mapped.length);
      continue;
    }
    const size_t length = std::max<size_t>(utf8_length(text.substr(0, 4)), 1);
    add(text.substr(0, length));
    text.remove_prefix(length);
  }
  return result;
}

void UnigramTokenizer::append_unknown(std::string_view character, std::vector<int32_t>& ids,
                                      bool& after_unknown) const {
  const auto token = [&](char c) { return byte_tokens_[static_cast<unsigned char>(c)]; };
  if (std::all_of(character.begin(), character.end(), [&](char c) { return token(c) >= 0; })) {
    for (const char c : character) ids.push_back(token(c));
    after_unknown = false;
    return;
  }
  if (!vocabulary_.unknown)
    fail(Errc::kUnsupported,
         "{}: vocabulary has neither bytes nor an unknown token for a character of the text",
         vocabulary_.source);
  if (!after_unknown) ids.push_back(*vocabulary_.unknown);
  after_unknown = true;
}

void UnigramTokenizer::append_best(std::string_view text, std::vector<int32_t>& ids) const {
  struct Best {
    double score = -std::numeric_limits<double>::infinity();
    size_t begin = 0;
    int32_t id = -1;  // of the piece that ends here; -1: an unknown character
  };
  std::vector<Best> best(text.size() + 1);
  best[0].score = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t character = std::max<size_t>(utf8_length(text.substr(at, 4)), 1);
    bool whole_character = false;
    const double here = best[at].score;
    texts_.prefixes(text.substr(at), [&](size_t length, int32_t id) {
      whole_character |= length == character;
      const bool user_defined = vocabulary_.types[static_cast<size_t>(id)] == TokenType::kUserDefined;
      const double score =
          here + (user_defined ? 0.0 : static_cast<double>(vocabulary_.scores[static_cast<size_t>(id)]));
      if (score > best[at + length].score) best[at + length] = {score, at, id};
    });
    if (!whole_character && here + unknown_score_ > best[at + character].score)
      best[at + character] = {here + unknown_score_, at, -1};
    at += character;
  }
  std::vector<std::pair<size_t, size_t>> cuts;  // backwards
  for (size_t end = text.size(); end > 0; end = best[end].begin) cuts.push_back({best[end].begin, end});
  bool after_unknown = false;
  for (auto cut = cuts.rbegin(); cut != cuts.rend(); ++cut) {
    const int32_t id = best[cut->second].id;
    if (id < 0) {
      append_unknown(text.substr(cut->first, cut->second - cut->first), ids, after_unknown);
      continue;
    }
    ids.push_back(id);
    after_unknown = false;
  }
}

void UnigramTokenizer::encode_text(std::string_view text, const ControlRule& control,
                                   std::vector<int32_t>& ids) const {
  special_.split_prefixed(
      vocabulary_, text, control, space_prefix_,
      [&](std::string_view stretch, bool prefixed) { append_best(normalize(stretch, prefixed), ids); }, ids);
}

}  // namespace butterfly::model
