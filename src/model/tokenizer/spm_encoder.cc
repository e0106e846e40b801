#include "model/tokenizer/spm_encoder.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"

namespace butterfly::model {
namespace {

constexpr uint32_t kPackedSpaceMark = 0xe29681;

}  // namespace

void SpmEncoder::encode(std::string_view text, bool space_prefix) {
  after_unknown_ = false;
  const int32_t space = t_.symbols_.find(kPackedSpaceMark);
  if (space_prefix) add(kPackedSpaceMark, space);
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte == ' ') {
      add(kPackedSpaceMark, space);
      ++at;
    } else if (byte < 128) {
      add(byte, t_.ascii_symbols_[byte]);
      ++at;
    } else {
      const size_t length = std::max<size_t>(utf8_length(text.substr(at, 4)), 1);
      const uint32_t packed = SpmTokenizer::pack(text.substr(at, length));
      add(packed, t_.symbols_.find(packed));
      at += length;
    }
  }
  finish_segment();
}

void SpmEncoder::add(uint32_t packed, int32_t id) {
  const bool cut = id < 0 || segment_.empty() ||
                   t_.neighbours_.find(SpmTokenizer::pair_key(segment_.back().mark, packed)) < 0;
  if (cut) finish_segment();
  segment_.push_back({id, packed});
}

void SpmEncoder::finish_segment() {
  merger_.merge(segment_, Rules{t_});
  for (const MergeSymbol& symbol : segment_) emit(symbol);
  segment_.clear();
}

void SpmEncoder::emit(const MergeSymbol& symbol) {
  if (symbol.id >= 0 && static_cast<size_t>(symbol.id) < t_.vocab_size()) {
    ids_.push_back(symbol.id);
    after_unknown_ = false;
    return;
  }
  unsigned char bytes[4];
  size_t count = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    const auto byte = static_cast<unsigned char>(symbol.mark >> shift);
    if (byte != 0 || count > 0 || shift == 0) bytes[count++] = byte;
  }
  const bool have_all =
      std::all_of(bytes, bytes + count, [&](unsigned char byte) { return t_.byte_tokens_[byte] >= 0; });
  if (have_all) {
    for (size_t i = 0; i < count; ++i) ids_.push_back(t_.byte_tokens_[bytes[i]]);
    after_unknown_ = false;
    return;
  }
  if (!t_.vocabulary_.unknown)
    fail(Errc::kUnsupported,
         "{}: vocabulary has no token for the bytes {:x}, no byte tokens and no unknown token",
         t_.vocabulary_.source, symbol.mark);
  // A run of unknown characters is one unknown token, as in SentencePiece.
  if (!after_unknown_) ids_.push_back(*t_.vocabulary_.unknown);
  after_unknown_ = true;
}

}  // namespace butterfly::model
