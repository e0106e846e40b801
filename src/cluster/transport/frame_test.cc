// Heads survive the wire; any damage is noticed.
#include "cluster/transport/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace butterfly::cluster {
namespace {

using ::testing::HasSubstr;

constexpr MessageHead kHead{
    .kind = MessageKind::kActivations, .epoch = 0x0102030405060708, .step = ~0ull, .bytes = 16384};

TEST(Frame, ReadsBackWhatWasWritten) {
  for (int kind = 1; kind <= 9; ++kind) {
    MessageHead head = kHead;
    head.kind = static_cast<MessageKind>(kind);
    head.bytes = static_cast<uint32_t>(message_bytes_max(head.kind));
    const auto read = decode_frame(encode_frame(head));
    ASSERT_TRUE(read.ok()) << read.status().text();
    EXPECT_EQ(read->kind, head.kind);
    EXPECT_EQ(read->epoch, head.epoch);
    EXPECT_EQ(read->step, head.step);
    EXPECT_EQ(read->bytes, head.bytes);
    EXPECT_NE(message_kind_name(head.kind), "unknown");
  }
}

TEST(Frame, EveryFlippedBitIsNoticed) {
  const FrameBytes good = encode_frame(kHead);
  for (size_t bit = 0; bit < 8 * kFrameBytes; ++bit) {
    FrameBytes bad = good;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_EQ(decode_frame(bad).status().code(), Errc::kCorrupt) << "bit " << bit;
  }
}

TEST(Frame, SizesAboveTheKindsBoundAreRefused) {
  MessageHead head = kHead;
  head.kind = MessageKind::kHealth;
  head.bytes = static_cast<uint32_t>(message_bytes_max(head.kind)) + 1;
  EXPECT_THAT(decode_frame(encode_frame(head)).status().text(),
              HasSubstr("health of 4097 bytes, at most 4096"));
}

TEST(Frame, UnknownKindsAreRefused) {
  for (const int kind : {0, 13, 255}) {
    MessageHead head = kHead;
    head.kind = static_cast<MessageKind>(kind);
    EXPECT_THAT(decode_frame(encode_frame(head)).status().text(), HasSubstr("does not exist")) << kind;
    EXPECT_EQ(message_bytes(head.kind, {}).status().code(), Errc::kInvalidArgument);
    EXPECT_EQ(message_kind_name(head.kind), "unknown");
  }
}

TEST(Frame, TooMuchIsNotSent) {
  const std::vector<std::byte> half(message_bytes_max(MessageKind::kHello) / 2 + 1);
  const std::span<const std::byte> pieces[] = {half, half};
  EXPECT_EQ(message_bytes(MessageKind::kHello, pieces).status().code(), Errc::kInvalidArgument);
  EXPECT_EQ(*message_bytes(MessageKind::kControl, pieces), 2 * half.size());
}

}  // namespace
}  // namespace butterfly::cluster
