#include "runtime/training/value_packer.h"

#include "base/clock.h"

namespace butterfly::runtime {

using cluster::Packing;
using cluster::PackingSwitch;

ConstPieces ValuePacker::prepare(cluster::ValuesHead& head, ConstPieces pieces, size_t planes) {
  plain_ = 0;
  for (const auto& piece : pieces) plain_ += piece.size();
  wire_ = plain_;
  if (switch_.wants_sample(plain_)) sample(pieces, planes);
  const Packing packing = switch_.choose(plain_);
  if (packing != Packing::kNone) {
    cluster::pack(packing, planes, pieces, room_);
    head.packing = packing;
    head.planes = static_cast<uint8_t>(planes);
    packed_ = {room_.data(), room_.size()};
    wire_ = packed_.size();
    pieces = {&packed_, 1};
  }
  return pieces;
}

void ValuePacker::sent(double seconds) {
  switch_.sent(wire_, seconds);
  switch_.count(plain_, wire_);
}

// From the middle of the longest piece.
void ValuePacker::sample(ConstPieces pieces, size_t planes) {
  std::span<const std::byte> longest;
  for (const auto& piece : pieces)
    if (piece.size() > longest.size()) longest = piece;
  if (longest.size() < PackingSwitch::kSampleBytes) return;
  const size_t middle = (longest.size() - PackingSwitch::kSampleBytes) / 2 / planes * planes;
  const std::span<const std::byte> part = longest.subspan(middle, PackingSwitch::kSampleBytes);
  PooledArray<std::byte> back(part.size());
  const std::span<std::byte> into(back.data(), back.size());
  for (const Packing packing : cluster::kPackings) {
    const TimePoint start = system_now();
    cluster::pack(packing, planes, {&part, 1}, room_);
    const TimePoint packed = system_now();
    (void)cluster::unpack(packing, planes, {room_.data(), room_.size()}, {&into, 1});
    switch_.sampled(packing, static_cast<double>(room_.size()) / static_cast<double>(part.size()),
                    seconds_of(packed - start), seconds_of(system_now() - packed));
  }
}

}  // namespace butterfly::runtime
