// A message that is handed over in parts: which bytes are next.
#pragma once
#include <array>
#include <cstddef>
#include <span>

#include "cluster/transport/frame.h"

namespace butterfly::cluster {

// Small pieces, and the frame, share a part; larger ones are parts of their own, and not copied. Holds spans
// of the pieces, and the list of them, until it is done. One thread.
class SendCursor {
 public:
  void begin(const FrameBytes& frame, std::span<const std::span<const std::byte>> pieces);
  bool done() const { return part_.empty(); }
  // Not empty until it is done. The same bytes until some of them are taken.
  std::span<const std::byte> part() const { return part_; }
  // Whether something comes behind this part.
  bool more() const { return left_ > 0; }
  void take(size_t count);

 private:
  static constexpr size_t kGatherBytes = 4096;
  static constexpr size_t kCopyMax = 1024;  // larger pieces are not copied

  void next(size_t gathered);

  std::span<const std::span<const std::byte>> pieces_;
  size_t at_ = 0, left_ = 0;  // the piece behind the part; bytes from there on
  std::span<const std::byte> part_;
  std::array<std::byte, kGatherBytes> gather_;
};

}  // namespace butterfly::cluster
