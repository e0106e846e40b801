// Values of one kind on their way out: packed where that pays, with what was measured.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "cluster/training/train_message.h"
#include "cluster/wire/packing_switch.h"
#include "runtime/training/train_link.h"

namespace butterfly::runtime {

// Of the computing thread.
class ValuePacker {
 public:
  explicit ValuePacker(const cluster::PackingOptions& options) : switch_(options) {}

  // What to send instead of `pieces`, elements of `planes` bytes; `head` says how. Valid until the next call,
  // as long as the pieces are.
  ConstPieces prepare(cluster::ValuesHead& head, ConstPieces pieces, size_t planes);
  // One of them went to a peer in so many seconds.
  void sent(double seconds);

  uint64_t plain_bytes() const { return switch_.plain_bytes(); }
  uint64_t sent_bytes() const { return switch_.sent_bytes(); }
  std::string describe() const { return switch_.describe(); }

 private:
  void sample(ConstPieces pieces, size_t planes);

  cluster::PackingSwitch switch_;
  PooledArray<std::byte> room_;
  std::span<const std::byte> packed_;
  size_t plain_ = 0, wire_ = 0;  // bytes of the prepared message
};

}  // namespace butterfly::runtime
