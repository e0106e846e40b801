#include "model/tokenizer/spm_encoder.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "model/tokenizer/utf8.h"

namespace butterfly::model {
namespace {

constexpr uint32_t kPackedSpaceMark = 0xe29681;
constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

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
                   t_.neighbours_.find(SpmTokenizer::pair_key(segment_.back().packed, packed)) < 0;
  if (cut) finish_segment();
  segment_.push_back({id, packed});
}

void SpmEncoder::finish_segment() {
  if (segment_.size() > kScanMax)
    merge_by_heap();
  else if (segment_.size() > 1)
    merge_by_scan();
  for (const Symbol& symbol : segment_) emit(symbol);
  segment_.clear();
}

void SpmEncoder::merge_by_scan() {
  int32_t ids[kScanMax];  // of joining i and i + 1, -1 if that is no piece
  float scores[kScanMax];
  size_t count = segment_.size();
  const auto look = [&](size_t i) {
    ids[i] = join(segment_[i].id, segment_[i + 1].id);
    scores[i] = ids[i] < 0 ? 0.0f : score(ids[i]);
  };
  for (size_t i = 0; i + 1 < count; ++i) look(i);
  while (true) {
    size_t best = count;
    for (size_t i = 0; i + 1 < count; ++i)
      if (ids[i] >= 0 && (best == count || scores[i] > scores[best])) best = i;
    if (best == count) break;
    segment_[best].id = token_of(ids[best]);
    --count;
    for (size_t i = best + 1; i < count; ++i) {
      segment_[i] = segment_[i + 1];
      ids[i] = ids[i + 1];  // the last one reads a stale entry that is never looked at
      scores[i] = scores[i + 1];
    }
    if (best > 0) look(best - 1);
    if (best + 1 < count) look(best);
  }
  segment_.resize(count);
}

// A linked list of symbols and a heap of possible joins. A join whose symbols have changed since it was
// pushed is recognised by joined_[left], which always names the join of `left` and what follows it now.
void SpmEncoder::merge_by_heap() {
  const size_t count = segment_.size();
  next_.resize(count);
  previous_.resize(count);
  joined_.assign(count, -1);
  heap_.clear();
  for (size_t i = 0; i < count; ++i) {
    next_[i] = i + 1 < count ? static_cast<uint32_t>(i + 1) : kNone;
    previous_[i] = i > 0 ? static_cast<uint32_t>(i - 1) : kNone;
  }
  const auto look = [&](uint32_t left) {
    joined_[left] = next_[left] == kNone ? -1 : join(segment_[left].id, segment_[next_[left]].id);
    if (joined_[left] >= 0) heap_.push_back({score(joined_[left]), left, joined_[left]});
    return joined_[left] >= 0;
  };
  for (size_t i = 0; i + 1 < count; ++i) look(static_cast<uint32_t>(i));
  std::make_heap(heap_.begin(), heap_.end());
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end());
    const Join best = heap_.back();
    heap_.pop_back();
    if (joined_[best.left] != best.id) continue;
    const uint32_t right = next_[best.left];
    segment_[best.left].id = token_of(best.id);
    joined_[right] = -1;
    next_[best.left] = next_[right];
    if (next_[right] != kNone) previous_[next_[right]] = best.left;
    if (previous_[best.left] != kNone && look(previous_[best.left]))
      std::push_heap(heap_.begin(), heap_.end());
    if (look(best.left)) std::push_heap(heap_.begin(), heap_.end());
  }
  size_t kept = 0;
  for (uint32_t i = 0; i != kNone; i = next_[i]) segment_[kept++] = segment_[i];
  segment_.resize(kept);
}

void SpmEncoder::emit(const Symbol& symbol) {
  if (symbol.id >= 0 && static_cast<size_t>(symbol.id) < t_.vocab_size()) {
    ids_.push_back(symbol.id);
    after_unknown_ = false;
    return;
  }
  unsigned char bytes[4];
  size_t count = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    const auto byte = static_cast<unsigned char>(symbol.packed >> shift);
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
         t_.vocabulary_.source, symbol.packed);
  // A run of unknown characters is one unknown token, as in SentencePiece.
  if (!after_unknown_) ids_.push_back(*t_.vocabulary_.unknown);
  after_unknown_ = true;
}

}  // namespace butterfly::model
