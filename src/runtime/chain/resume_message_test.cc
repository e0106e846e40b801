#include "runtime/chain/resume_message.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>

namespace butterfly::runtime {
namespace {

const ChainLimits kLimits{.rows_max = 8, .sequences = 2, .pages = 10, .dim = 4, .layers = 6};

std::vector<PageClaim> some_claims() {
  return {{3, 32, lineage_after(kNoText, 1)}, {9, 5, lineage_after(kNoText, 2)}};
}

// Behind two stages with layers 0 to 1 and 2 to 4.
std::vector<std::byte> some_message() {
  std::vector<std::byte> bytes;
  write_claims(some_claims(), bytes);
  write_stage_report(0, {.claims = 2, .layers = {{32, 5}, {31, 0}}, .rows = {{2, {32, 4}}}}, bytes);
  write_stage_report(2, {.claims = 2, .layers = {{0, 0}, {1, 1}, {2, 2}}, .rows = {}}, bytes);
  return bytes;
}

TEST(ResumeMessage, WhatIsWrittenIsRead) {
  ResumeMessage message;
  const Status status = message.read(some_message(), kLimits, 2, 5);
  ASSERT_TRUE(status.ok()) << status.text();
  ASSERT_EQ(message.claims.size(), 2u);
  EXPECT_EQ(message.claims[1].page, 9u);
  EXPECT_EQ(message.claims[1].count, 5u);
  EXPECT_EQ(message.claims[1].lineage, some_claims()[1].lineage);
  using Layers = std::vector<std::vector<uint8_t>>;
  EXPECT_EQ(message.report.layers, Layers({{32, 5}, {31, 0}, {0, 0}, {1, 1}, {2, 2}}));
  ASSERT_EQ(message.report.rows.size(), 1u);
  EXPECT_EQ(message.report.rows[0].behind, 2u);
  EXPECT_EQ(message.report.rows[0].filled, std::vector<uint8_t>({32, 4}));
  EXPECT_LE(some_message().size(), resume_bytes_max(kLimits, 2, 5));
}

TEST(ResumeMessage, OffersOfStagesAreRead) {
  std::vector<std::byte> bytes;
  std::vector<PageClaim> claims = some_claims();
  claims[1].in_use = false;
  write_claims(claims, bytes);
  CacheReport report{.claims = 2, .layers = {{32, 5}, {31, 0}}, .rows = {}};
  report.offers = {{.begin = 0, .end = 2, .from = 1, .to = 2, .bytes = 12'345, .seconds = 0.5}};
  write_stage_report(0, report, bytes);
  ResumeMessage message;
  ASSERT_TRUE(message.read(bytes, kLimits, 1, 2).ok());
  EXPECT_TRUE(message.claims[0].in_use);
  EXPECT_FALSE(message.claims[1].in_use);
  ASSERT_EQ(message.report.offers.size(), 1u);
  const CacheReport::Offer& offer = message.report.offers[0];
  EXPECT_EQ(std::tuple(offer.begin, offer.end, offer.from, offer.to, offer.bytes),
            std::tuple(0u, 2u, 1u, 2u, 12'345u));
  EXPECT_DOUBLE_EQ(offer.seconds, 0.5);
}

TEST(ResumeMessage, StatesAreClaimedWithTheirKind) {
  std::vector<std::byte> bytes;
  const PageClaim claim{7, 1, lineage_after(kNoText, 1), graph::PageKind::kState};
  write_claims({&claim, 1}, bytes);
  ResumeMessage message;
  ASSERT_TRUE(message.read(bytes, kLimits, 0, 0).ok());
  EXPECT_EQ(message.claims[0].kind, graph::PageKind::kState);
  EXPECT_EQ(message.claims[0].page, 7u);
}

TEST(ResumeMessage, WhatDoesNotFitIsRefused) {
  ResumeMessage message;
  const auto good = some_message();
  const auto refused = [&](const std::vector<std::byte>& bytes, size_t stages = 2, size_t first_layer = 5) {
    return message.read(bytes, kLimits, stages, first_layer).code() == Errc::kCorrupt;
  };
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_TRUE(refused({good.begin(), good.begin() + static_cast<ptrdiff_t>(size)})) << size;
  EXPECT_TRUE(refused(good, 1));
  EXPECT_TRUE(refused(good, 2, 4));
  const auto with = [&](size_t at, uint32_t value) {
    auto bytes = good;
    std::memcpy(bytes.data() + at, &value, sizeof value);
    return bytes;
  };
  EXPECT_TRUE(refused(with(0, UINT32_MAX)));
  EXPECT_FALSE(refused(with(4, 60'000))) << "a limit for a fetch";
  EXPECT_TRUE(refused(with(4, 60'001)));
  EXPECT_TRUE(refused(with(8, 1)));
  EXPECT_TRUE(refused(with(16, 10))) << "a page that is not there";
  EXPECT_TRUE(refused(with(20, 33))) << "more positions than a page has";
  EXPECT_TRUE(refused(with(20, 0)));
  EXPECT_TRUE(refused(with(20, 1 | 1 << 16))) << "pages of a window are not claimed";
  EXPECT_TRUE(refused(with(20, 2 | 2 << 16))) << "a page holds one state";
  EXPECT_TRUE(refused(with(20, 1 | 3 << 16))) << "a kind that is not there";
  EXPECT_TRUE(refused(with(20, 1 | 2 << 24))) << "in use or not";
  const size_t first_stage = 16 + 2 * 40;
  EXPECT_TRUE(refused(with(first_stage, 1))) << "a gap between stages";
  EXPECT_TRUE(refused(with(first_stage + 4, 6)));
  EXPECT_TRUE(refused(with(first_stage + 8, 3))) << "rows behind a layer of another stage";
  auto more = good;
  more[first_stage + 40 + 1] = std::byte{6};
  EXPECT_TRUE(refused(more)) << "more positions than were asked for";
  more = with(first_stage + 20, 3);  // layers to be sent
  EXPECT_FALSE(refused(more)) << "of nothing";
  more[first_stage + 24] = std::byte{1};
  EXPECT_TRUE(refused(more)) << "a layer of another stage";
  EXPECT_TRUE(refused(with(first_stage + 16, 1))) << "from the second to before the first";
  EXPECT_TRUE(refused(with(first_stage + 28, 1 << 30))) << "more bytes than there are";
  EXPECT_TRUE(refused(with(first_stage + 36, 1 << 30))) << "a transfer of centuries";
}

RC_GTEST_PROP(ResumeMessage, DamagedBytesNeverReadBeyondTheEnd, ()) {
  auto bytes = some_message();
  const auto changes = *rc::gen::inRange(1, 6);
  for (int i = 0; i < changes; ++i)
    bytes[*rc::gen::inRange<size_t>(0, bytes.size())] = static_cast<std::byte>(*rc::gen::inRange(0, 256));
  ResumeMessage message;
  if (message.read(bytes, kLimits, 2, 5)) RC_ASSERT(message.report.layers.size() == 5u);
}

}  // namespace
}  // namespace butterfly::runtime
