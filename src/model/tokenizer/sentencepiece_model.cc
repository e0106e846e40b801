#include "model/tokenizer/sentencepiece_model.h"

#include <cmath>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/mapped_file.h"
#include "model/tokenizer/hf_metadata.h"
#include "model/tokenizer/hf_tokenizer.h"

namespace butterfly::model {
namespace {

// One message of protobuf's wire format: fields of (number, type, value), each checked against the end.
class Message {
 public:
  Message(std::span<const std::byte> bytes, const std::string& source, std::string_view name)
      : bytes_(bytes), source_(source), name_(name) {}

  // The next field, false at the end.
  bool next() {
    if (at_ == bytes_.size()) return false;
    const uint64_t tag = varint();
    number_ = tag >> 3;
    type_ = static_cast<uint32_t>(tag & 7);
    if (number_ == 0) corrupt("expected a field number, found 0");
    switch (type_) {
      case 0:
        value_ = varint();
        break;
      case 1:
        body_ = take(8);
        break;
      case 2:
        body_ = take(varint());
        break;
      case 5:
        body_ = take(4);
        break;
      default:
        corrupt("expected a wire type of 0, 1, 2 or 5, found " + std::to_string(type_));
    }
    return true;
  }

  uint64_t number() const { return number_; }
  bool flag() const { return number_of(0) != 0; }
  int32_t integer() const { return static_cast<int32_t>(number_of(0)); }
  std::span<const std::byte> bytes() const {
    expect(2);
    return body_;
  }
  std::string text() const {
    const auto body = bytes();
    return {reinterpret_cast<const char*>(body.data()), body.size()};
  }
  float real() const {
    expect(5);
    float value;
    std::memcpy(&value, body_.data(), sizeof(value));
    return value;
  }
  [[noreturn]] void corrupt(const std::string& what) const {
    fail(Errc::kCorrupt, "{}: {} at byte {}: {}", source_, name_, at_, what);
  }

 private:
  uint64_t number_of(uint32_t type) const {
    expect(type);
    return value_;
  }
  void expect(uint32_t type) const {
    if (type_ != type)
      corrupt("field " + std::to_string(number_) + ": expected wire type " + std::to_string(type) +
              ", found " + std::to_string(type_));
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at_ == bytes_.size()) corrupt("expected more bytes, found the end");
      const auto byte = static_cast<uint64_t>(bytes_[at_++]);
      if (shift < 64) value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    corrupt("expected a number of at most 10 bytes, found more");
  }
  std::span<const std::byte> take(uint64_t size) {
    if (size > bytes_.size() - at_)
      corrupt("expected " + std::to_string(size) + " bytes, found " + std::to_string(bytes_.size() - at_));
    const auto part = bytes_.subspan(at_, static_cast<size_t>(size));
    at_ += static_cast<size_t>(size);
    return part;
  }

  std::span<const std::byte> bytes_;
  const std::string& source_;
  std::string_view name_;
  size_t at_ = 0;
  uint64_t number_ = 0;
  uint32_t type_ = 0;
  uint64_t value_ = 0;
  std::span<const std::byte> body_;
};

SentencePieceModel::Piece read_piece(Message message) {
  SentencePieceModel::Piece piece;
  while (message.next()) {
    if (message.number() == 1) piece.text = message.text();
    if (message.number() == 2) piece.score = message.real();
    if (message.number() == 3) piece.type = message.integer();
  }
  if (piece.type < 1 || piece.type > 6)
    message.corrupt("type: expected 1 to 6, found " + std::to_string(piece.type));
  if (std::isnan(piece.score)) message.corrupt("score: expected a number, found nan");
  return piece;
}

void read_trainer(Message message, SentencePieceModel& model) {
  while (message.next()) {
    switch (message.number()) {
      case 3:
        model.kind = static_cast<SentencePieceModel::Kind>(message.integer());
        break;
      case 24:
        model.spaces_are_suffixes = message.flag();
        break;
      case 40:
        model.unknown_id = message.integer();
        break;
      case 41:
        model.bos_id = message.integer();
        break;
      case 42:
        model.eos_id = message.integer();
        break;
      case 43:
        model.padding_id = message.integer();
        break;
      default:
        break;
    }
  }
}

void read_normalizer(Message message, SentencePieceModel& model) {
  while (message.next()) {
    switch (message.number()) {
      case 2: {
        const auto map = message.bytes();
        const auto* data = reinterpret_cast<const uint8_t*>(map.data());
        model.charsmap.assign(data, data + map.size());
        break;
      }
      case 3:
        model.add_dummy_prefix = message.flag();
        break;
      case 4:
        model.remove_extra_spaces = message.flag();
        break;
      case 5:
        model.escape_spaces = message.flag();
        break;
      default:
        break;
    }
  }
}

}  // namespace

SentencePieceModel SentencePieceModel::parse(std::span<const std::byte> mapped, const std::string& source) {
  // A copy that cannot vanish under us if the file is mapped and shrinks.
  std::vector<std::byte> copy(mapped.size());
  std::byte* to = copy.data();
  if (!copy.empty()) MappedFile::guard([&, to] { std::memcpy(to, mapped.data(), mapped.size()); });
  SentencePieceModel model;
  Message message(copy, source, "SentencePiece model");
  while (message.next()) {
    if (message.number() == 1) model.pieces.push_back(read_piece({message.bytes(), source, "piece"}));
    if (message.number() == 2) read_trainer({message.bytes(), source, "trainer_spec"}, model);
    if (message.number() == 3) read_normalizer({message.bytes(), source, "normalizer_spec"}, model);
  }
  if (model.pieces.empty()) message.corrupt("expected pieces, found none");
  return model;
}

void add_tokenizer_metadata_from_sentencepiece(std::span<const std::byte> bytes, Metadata& metadata) {
  const SentencePieceModel model = SentencePieceModel::parse(bytes, metadata.source());
  HfTokenizer t;
  t.source = metadata.source();
  using Kind = SentencePieceModel::Kind;
  if (model.kind == Kind::kWord)
    fail(Errc::kUnsupported,
         "{}: trainer_spec.model_type: expected unigram (1), BPE (2) or characters (4), found {}", t.source,
         static_cast<int>(model.kind));
  if (!model.escape_spaces || model.spaces_are_suffixes)
    fail(Errc::kUnsupported, "{}: expected spaces as U+2581 before words, found {}", t.source,
         model.spaces_are_suffixes ? "spaces after words" : "spaces as they are");
  // Where all pieces are single characters there is one way to cut a text, which unigram finds.
  t.model = model.kind == Kind::kBpe ? "llama" : "t5";
  if (model.kind == Kind::kBpe && !model.charsmap.empty())
    fail(Errc::kUnsupported, "{}: normalizer_spec: not supported: a character map ({} bytes) before BPE",
         t.source, model.charsmap.size());
  t.charsmap = model.charsmap;
  t.space_prefix = model.add_dummy_prefix;
  if (model.kind != Kind::kBpe) t.remove_extra_spaces = model.remove_extra_spaces;
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    t.texts.push_back(piece.text);
    t.scores.push_back(piece.score);
    t.types.push_back(piece.type);
  }
  const auto id = [&](int32_t value) -> std::optional<int32_t> {
    if (value < 0 || static_cast<size_t>(value) >= t.texts.size()) return std::nullopt;
    return value;
  };
  t.unknown = id(model.unknown_id);
  t.bos = id(model.bos_id);
  t.eos = id(model.eos_id);
  t.padding = id(model.padding_id);
  add_hf_metadata(std::move(t), metadata);
}

}  // namespace butterfly::model
