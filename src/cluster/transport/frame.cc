#include "cluster/transport/frame.h"

#include <cstdint>

#include "base/checked.h"

namespace butterfly::cluster {
namespace {

constexpr uint32_t kMagic = 0x314d4642;  // "BFM1"

struct KindRow {
  std::string_view name = {};
  size_t bytes_max = 0;
};

// Bounds are what the largest sensible use needs: 4,096 rows of 16,384 f32 for activations, some subtrees of
// those or rows of experts for exchanges, the shard of an owner for values of training, whole lists of nodes
// and plans for control. A kind without a row does not compile; a number that is no kind has no name.
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wswitch"
constexpr KindRow row_of(MessageKind kind) {
  switch (kind) {
    case MessageKind::kHello:
      return {"hello", 4u << 10};
    case MessageKind::kControl:
      return {"control", 4u << 20};
    case MessageKind::kHealth:
      return {"health", 4u << 10};
    case MessageKind::kTokens:
      return {"tokens", 16u << 20};
    case MessageKind::kActivations:
      return {"activations", 256u << 20};
    case MessageKind::kResult:
      return {"result", 64u << 20};
    case MessageKind::kWeights:
      return {"weights", 64u << 20};
    case MessageKind::kTraining:
      return {"training", 4u << 20};
    case MessageKind::kTrainValues:
      return {"training values", 1u << 30};
    case MessageKind::kExchange:
      return {"exchange", 1u << 30};
    case MessageKind::kBeat:
      return {"beat", 0};
    case MessageKind::kCache:
      return {"cache", 2u << 20};
  }
  return {};
}
#pragma GCC diagnostic pop

template <typename T>
void put(std::byte* to, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) to[i] = static_cast<std::byte>(value >> (8 * i));
}
template <typename T>
T get(const std::byte* from) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(from[i]) << (8 * i);
  return value;
}

// Every bit of the first 28 bytes changes it: each word is mixed by an odd factor and a shift.
uint32_t check_of(const std::byte* frame) {
  uint64_t sum = 0x9e3779b97f4a7c15;
  for (size_t i = 0; i < 28; i += 4) {
    sum = (sum ^ get<uint32_t>(frame + i)) * 0xff51afd7ed558ccd;
    sum ^= sum >> 29;
  }
  return static_cast<uint32_t>(sum >> 32) ^ static_cast<uint32_t>(sum);
}

}  // namespace

FrameBytes encode_frame(const MessageHead& head) {
  FrameBytes frame{};
  put(frame.data(), kMagic);
  put(frame.data() + 4, static_cast<uint8_t>(head.kind));
  put(frame.data() + 8, head.epoch);
  put(frame.data() + 16, head.step);
  put(frame.data() + 24, head.bytes);
  put(frame.data() + 28, check_of(frame.data()));
  return frame;
}

Result<MessageHead> decode_frame(std::span<const std::byte, kFrameBytes> frame) {
  const std::byte* at = frame.data();
  if (const auto magic = get<uint32_t>(at); magic != kMagic)
    return {Errc::kCorrupt, fmt::format("[frame] begins with {:08x}, expected {:08x}", magic, kMagic)};
  if (const auto found = get<uint32_t>(at + 28), expected = check_of(at); found != expected)
    return {Errc::kCorrupt, fmt::format("[frame] check is {:08x}, expected {:08x}", found, expected)};
  if ((at[5] | at[6] | at[7]) != std::byte{0}) return {Errc::kCorrupt, "[frame] bytes 5 to 7 are not zero"};
  const MessageHead head{.kind = static_cast<MessageKind>(get<uint8_t>(at + 4)),
                         .epoch = get<uint64_t>(at + 8),
                         .step = get<uint64_t>(at + 16),
                         .bytes = get<uint32_t>(at + 24)};
  const KindRow row = row_of(head.kind);
  if (row.name.empty())
    return {Errc::kCorrupt, fmt::format("[frame] kind {} does not exist", static_cast<int>(head.kind))};
  if (head.bytes > row.bytes_max)
    return {Errc::kCorrupt, fmt::format("[frame] {} of {} bytes, at most {} are allowed", row.name,
                                        head.bytes, row.bytes_max)};
  return head;
}

std::string_view message_kind_name(MessageKind kind) {
  const KindRow row = row_of(kind);
  return row.name.empty() ? "unknown" : row.name;
}

size_t message_bytes_max(MessageKind kind) { return row_of(kind).bytes_max; }

Result<uint32_t> message_bytes(MessageKind kind, std::span<const std::span<const std::byte>> pieces) {
  const KindRow row = row_of(kind);
  if (row.name.empty())
    return {Errc::kInvalidArgument,
            fmt::format("[link] message of kind {}, which does not exist", static_cast<int>(kind))};
  uint64_t sum = 0;
  for (const auto& piece : pieces) sum += piece.size();  // of memory that exists: cannot wrap
  if (sum > row.bytes_max)
    return {Errc::kInvalidArgument,
            fmt::format("[link] {} of {} bytes, at most {} can be sent", row.name, sum, row.bytes_max)};
  return static_cast<uint32_t>(sum);
}

}  // namespace butterfly::cluster
