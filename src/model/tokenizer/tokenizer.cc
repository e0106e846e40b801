#include "model/tokenizer/tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "model/tokenizer/token_stream.h"

namespace butterfly::model {
namespace {

// Control tokens by which published models end a turn or a text, whatever their file calls eos.
constexpr std::string_view kEndTexts[] = {
    "<|eot_id|>", "<|eom_id|>",      "<|im_end|>",          "<|end|>", "<end_of_turn>", "<|endoftext|>",
    "<|eot|>",    "<|end_of_text|>", "<|end_of_sentence|>", "<EOT>",   "_<EOT>",
};

}  // namespace

Tokenizer::Tokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {
  const Vocabulary& v = vocabulary_;
  end_of_generation_.assign(v.size(), false);
  for (const auto& id : {v.eos, v.eot, v.eom})
    if (id) end_of_generation_[static_cast<size_t>(*id)] = true;
  for (size_t i = 0; i < v.size(); ++i) {
    const bool special = v.types[i] == TokenType::kControl || v.types[i] == TokenType::kUserDefined;
    if (special && std::count(std::begin(kEndTexts), std::end(kEndTexts), v.texts[i]))
      end_of_generation_[i] = true;
  }
  // gpt-oss ends messages, of which an answer has several, with <|end|>, and answers with these.
  const auto harmony = {find_token("<|return|>"), find_token("<|call|>")};
  if (std::all_of(harmony.begin(), harmony.end(), [](const auto& id) { return id.has_value(); })) {
    for (const auto& id : harmony) end_of_generation_[static_cast<size_t>(*id)] = true;
    if (const auto id = find_token("<|end|>"); id && id != v.eos)
      end_of_generation_[static_cast<size_t>(*id)] = false;
  }
}

size_t Tokenizer::check_id(int32_t id) const {
  if (id < 0 || static_cast<size_t>(id) >= vocabulary_.size())
    fail(Errc::kInvalidArgument, "token id: expected 0 to {}, found {}", vocabulary_.size() - 1, id);
  return static_cast<size_t>(id);
}

std::string_view Tokenizer::token_text(int32_t id) const { return vocabulary_.texts[check_id(id)]; }

std::optional<int32_t> Tokenizer::find_token(std::string_view text) const {
  const auto at = std::find(vocabulary_.texts.begin(), vocabulary_.texts.end(), text);
  if (at == vocabulary_.texts.end()) return std::nullopt;
  return static_cast<int32_t>(at - vocabulary_.texts.begin());
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<int32_t> ids;
  if (options.add_bos.value_or(add_bos_) && vocabulary_.bos) ids.push_back(*vocabulary_.bos);
  encode_text(text, {options.parse_special, options.plain}, ids);
  if (options.add_eos.value_or(add_eos_) && vocabulary_.eos) ids.push_back(*vocabulary_.eos);
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, const DecodeOptions& options) const {
  TokenStream stream(*this, /*at_text_start=*/true, options);
  std::string text;
  for (const int32_t id : ids) text += stream.push(id);
  return text + stream.flush();
}

}  // namespace butterfly::model
