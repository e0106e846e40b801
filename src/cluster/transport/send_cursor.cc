#include "cluster/transport/send_cursor.h"

#include <cstring>

namespace butterfly::cluster {

void SendCursor::begin(const FrameBytes& frame, std::span<const std::span<const std::byte>> pieces) {
  pieces_ = pieces;
  at_ = left_ = 0;
  for (const auto& piece : pieces) left_ += piece.size();
  std::memcpy(gather_.data(), frame.data(), frame.size());
  next(frame.size());
}

void SendCursor::take(size_t count) {
  part_ = part_.subspan(count);
  if (part_.empty()) next(0);
}

void SendCursor::next(size_t gathered) {
  for (; at_ < pieces_.size(); ++at_) {
    const auto& piece = pieces_[at_];
    if (piece.empty()) continue;
    if (piece.size() > kCopyMax || gathered + piece.size() > gather_.size()) break;
    std::memcpy(gather_.data() + gathered, piece.data(), piece.size());
    gathered += piece.size();
    left_ -= piece.size();
  }
  part_ = {gather_.data(), gathered};
  if (gathered > 0 || at_ == pieces_.size()) return;
  part_ = pieces_[at_++];
  left_ -= part_.size();
}

}  // namespace butterfly::cluster
