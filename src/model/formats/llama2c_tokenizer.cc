// llama2.c's tokenizer.bin: the longest length, then for each piece its score, length and bytes. Pieces 3 to
// 258 stand for bytes, unless the vocabulary has none at all, as one of characters.
#include <fmt/format.h>

#include <cmath>

#include "base/mapped_file.h"
#include "base/printable.h"
#include "model/formats/byte_reader.h"
#include "model/formats/llama2c.h"
#include "model/tokenizer/vocabulary.h"

namespace butterfly::model {
namespace {

constexpr uint32_t kPieceBytesMax = 65536;
constexpr uint32_t kFirstByteToken = 3;  // after <unk>, <s>, </s>; the format fixes these ids

// The file writes spaces where SentencePiece has U+2581.
std::string with_space_marks(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == ' ')
      result += kSpaceMark;
    else
      result += c;
  }
  return result;
}

bool is_byte_place(uint32_t id) { return id >= kFirstByteToken && id < kFirstByteToken + 256; }
bool looks_like_a_byte(std::string_view text) { return text.size() == 6 && text.starts_with("<0x"); }

}  // namespace

void llama2c_parse_tokenizer(std::span<const std::byte> bytes, const std::string& name, uint32_t vocab_size,
                             Metadata& metadata) {
  ByteReader in(bytes, name);
  in.read<uint32_t>("longest piece");
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;
  bool has_bytes = false;
  for (uint32_t id = 0; id < vocab_size; ++id) {
    in.set_place(fmt::format("piece {} of {}", id, vocab_size));
    scores.push_back(in.read<float>("score"));
    if (std::isnan(scores.back())) in.corrupt("score is not a number");
    const auto length = in.read<uint32_t>("length");
    if (length > kPieceBytesMax) in.corrupt("length: expected at most {}, found {}", kPieceBytesMax, length);
    const std::string text = in.read_string(length, "bytes");
    if (id == kFirstByteToken) has_bytes = looks_like_a_byte(text);
    const bool byte = has_bytes && is_byte_place(id);
    if (byte && text != fmt::format("<0x{:02X}>", id - kFirstByteToken))
      in.corrupt("expected <0x{:02X}>, found {}", id - kFirstByteToken, printable(text));
    tokens.push_back(id == 1 ? "<s>" : id == 2 ? "</s>" : with_space_marks(text));
    types.push_back(static_cast<int32_t>(id == 0                ? TokenType::kUnknown
                                         : id < kFirstByteToken ? TokenType::kControl
                                         : byte                 ? TokenType::kByte
                                                                : TokenType::kNormal));
  }
  in.set_place("end");
  if (in.remaining() != 0)
    in.corrupt("expected {} pieces (the model's vocabulary), found {} more bytes", vocab_size,
               in.remaining());
  metadata.set("tokenizer.ggml.model", std::string("llama"));
  metadata.set("tokenizer.ggml.tokens", string_array(std::move(tokens)));
  metadata.set("tokenizer.ggml.scores", f32_array(std::move(scores)));
  metadata.set("tokenizer.ggml.token_type", i32_array(std::move(types)));
  metadata.set("tokenizer.ggml.unknown_token_id", uint32_t{0});
  metadata.set("tokenizer.ggml.bos_token_id", uint32_t{1});
  metadata.set("tokenizer.ggml.eos_token_id", uint32_t{2});
  metadata.set("tokenizer.ggml.eot_token_id", uint32_t{1});  // llama2.c ends a text at the next <s>
  metadata.set("tokenizer.ggml.add_bos_token", true);
  metadata.set("tokenizer.ggml.add_eos_token", false);
}

void llama2c_add_tokenizer(const std::filesystem::path& path, uint32_t vocab_size, Metadata& metadata) {
  const auto mapping = MappedFile::open(path);
  llama2c_parse_tokenizer(mapping->bytes(), path.string(), vocab_size, metadata);
}

}  // namespace butterfly::model
