#include "model/tokenizer/word_piece.h"

#include "base/error.h"
#include "model/tokenizer/unicode_text.h"

namespace butterfly::model {
namespace {

// BERT's tables end one block at U+2B920 instead of U+2B820; tokenizers keep that.
bool is_chinese(uint32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

// [CLS] begins a text and [SEP] ends it, whatever else the file calls so.
Vocabulary with_ends(Vocabulary v) {
  if (v.cls) v.bos = v.cls;
  if (v.separator) v.eos = v.separator;
  return v;
}

}  // namespace

WordPieceTokenizer::WordPieceTokenizer(Vocabulary vocabulary, bool lowercase, bool strip_accents)
    : Tokenizer(with_ends(std::move(vocabulary))),
      lowercase_(lowercase),
      strip_accents_(strip_accents),
      special_(vocabulary_) {
  const Vocabulary& v = vocabulary_;
  if (!v.unknown)
    fail(Errc::kCorrupt, "{}: expected key tokenizer.ggml.unknown_token_id, found none", v.source);
  add_bos_ = v.add_bos.value_or(true);
  add_eos_ = v.add_eos.value_or(true);
  pieces_.resize(v.size());
  for (size_t i = 0; i < v.size(); ++i) {
    if (v.types[i] == TokenType::kControl || v.types[i] == TokenType::kUnknown) continue;
    const std::string_view text = v.texts[i];
    const bool begins_word = text.substr(0, kSpaceMark.size()) == kSpaceMark;
    pieces_[i] = begins_word ? " " + std::string(text.substr(kSpaceMark.size())) : std::string(text);
    texts_.add(text, static_cast<int32_t>(i));
  }
}

std::unique_ptr<Tokenizer> WordPieceTokenizer::make(const Metadata& metadata) {
  const bool lowercase = metadata.boolean_or("tokenizer.ggml.normalizer.lowercase", true);
  return std::make_unique<WordPieceTokenizer>(
      Vocabulary::read(metadata), lowercase,
      metadata.boolean_or("tokenizer.ggml.normalizer.strip_accents", lowercase));
}

void WordPieceTokenizer::append_word(std::string_view word, std::vector<int32_t>& ids) const {
  const std::string marked = std::string(kSpaceMark).append(word);
  const size_t count_before = ids.size();
  for (std::string_view rest = marked; !rest.empty();) {
    size_t longest = 0;
    int32_t found = -1;
    texts_.prefixes(rest, [&](size_t length, int32_t id) {
      longest = length;
      found = id;
    });
    if (found < 0) {
      ids.resize(count_before);
      ids.push_back(*vocabulary_.unknown);
      return;
    }
    ids.push_back(found);
    rest.remove_prefix(longest);
  }
}

void WordPieceTokenizer::append_words(std::string_view text, std::vector<int32_t>& ids) const {
  std::string word;
  const auto finish = [&] {
    if (!word.empty()) append_word(word, ids);
    word.clear();
  };
  while (!text.empty()) {
    const CodePoint c = front_code_point(text);
    text.remove_prefix(c.length);
    if (is_white_space(c.value)) {
      finish();
      continue;
    }
    if (c.value == 0 || c.value == 0xfffd || is_control(c.value)) continue;
    if (strip_accents_ && is_mark(c.value)) continue;
    const bool alone =
        is_punctuation(c.value) || (c.value < 0x7f && is_symbol(c.value)) || is_chinese(c.value);
    if (alone) finish();
    append_utf8(lowercase_ ? to_lower(c.value) : c.value, word);
    if (alone) finish();
  }
  finish();
}

void WordPieceTokenizer::encode_text(std::string_view text, const ControlRule& control,
                                     std::vector<int32_t>& ids) const {
  const auto plain = [&](std::string_view stretch) {
    if (strip_accents_)
      append_words(to_nfd(stretch), ids);
    else
      append_words(stretch, ids);
  };
  special_.split(vocabulary_, text, control, plain, [&](int32_t id) { ids.push_back(id); });
}

}  // namespace butterfly::model
