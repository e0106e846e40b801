// Nodes that would not compute the same bits find out before they work together.
#include "cluster/transport/hello.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "cluster/transport/inproc.h"
#include "cluster/transport/message.h"
#include "kernels/simd/target.h"

namespace butterfly::cluster {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Duration kLong = 30s;

class HelloTest : public ::testing::Test {
 protected:
  // What each side says after both said hello.
  std::pair<Result<Hello>, Result<Hello>> exchange(const Hello& from_a, const Hello& from_b) {
    auto b = std::async(std::launch::async, [&] { return exchange_hello(*b_, from_b, kLong); });
    auto a = exchange_hello(*a_, from_a, kLong);
    return {std::move(a), b.get()};
  }
  std::unique_ptr<Link> a_, b_;
  void SetUp() override { std::tie(a_, b_) = inproc_pair({"a", "anna"}, {"b", "bert"}); }
};

TEST_F(HelloTest, SaysWhatTheLinkIsFor) {
  const Hello mine{.purpose = LinkPurpose::kStage,
                   .incarnation = 12,
                   .job = 3,
                   .epoch = 34,
                   .version = "0.1",
                   .address = "h:1"};
  const auto [at_a, at_b] = exchange(mine, {.purpose = LinkPurpose::kControl});
  ASSERT_TRUE(at_a.ok() && at_b.ok());
  EXPECT_EQ(at_b->purpose, LinkPurpose::kStage);
  EXPECT_EQ(at_b->incarnation, 12u);
  EXPECT_EQ(at_b->job, 3u);
  EXPECT_EQ(at_b->epoch, 34u);
  EXPECT_EQ(at_b->version, "0.1");
  EXPECT_EQ(at_b->address, "h:1");
  EXPECT_EQ(at_b->numerics_id, static_cast<uint32_t>(kernels::kNumericsId));
  EXPECT_EQ(at_a->purpose, LinkPurpose::kControl);
}

TEST_F(HelloTest, UnequalNumericsRefuseInWordsOnBothSides) {
  const auto [at_a, at_b] = exchange({}, {.numerics_id = 99});
  EXPECT_EQ(at_a.status().code(), Errc::kUnsupported);
  EXPECT_EQ(at_b.status().code(), Errc::kUnsupported);
  EXPECT_THAT(at_a.status().text(),
              AllOf(HasSubstr("node bert computes by numerics 99"), HasSubstr("same version")));
  EXPECT_THAT(at_b.status().text(),
              HasSubstr("node anna computes by numerics " + std::to_string(kernels::kNumericsId) +
                        ", this node by numerics 99"));
}

TEST_F(HelloTest, AnotherProtocolIsRefusedWhateverFollows) {
  const auto [at_a, at_b] = exchange({}, {.protocol = Hello::kProtocol + 1});
  EXPECT_EQ(at_a.status().code(), Errc::kUnsupported);
  EXPECT_THAT(at_a.status().text(), HasSubstr(fmt::format("speaks version {}", Hello::kProtocol + 1)));
  EXPECT_EQ(at_b.status().code(), Errc::kUnsupported);
}

TEST_F(HelloTest, AnotherVersionIsRefusedInWordsOnBothSides) {
  const auto [at_a, at_b] = exchange({.version = "0.1"}, {.version = "0.2\x1b[2J"});
  EXPECT_EQ(at_a.status().code(), Errc::kUnsupported);
  EXPECT_EQ(at_b.status().code(), Errc::kUnsupported);
  EXPECT_THAT(at_a.status().text(),
              AllOf(HasSubstr("node bert runs version 0.2"), HasSubstr("this node version 0.1"),
                    ::testing::Not(HasSubstr("\x1b"))));
  EXPECT_THAT(at_b.status().text(), HasSubstr("node anna runs version 0.1"));
}

TEST_F(HelloTest, SomethingElseFirstClosesTheLink) {
  ASSERT_TRUE(send_message(*b_, {.kind = MessageKind::kHealth}, {}, kLong).ok());
  EXPECT_THAT(exchange_hello(*a_, {}, kLong).status().text(),
              HasSubstr("expected hello first, found health"));
  EXPECT_EQ(a_->receive_head(kLong).status().code(), Errc::kCancelled);
}

TEST_F(HelloTest, EveryCutIsRefused) {
  const auto whole = Hello{.version = "0.1", .address = "h:1"}.encode();
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(Hello::decode(std::span(whole).first(size)).status().code(), Errc::kCorrupt) << size;
}

TEST_F(HelloTest, SilenceEndsAtTheDeadline) {
  EXPECT_EQ(exchange_hello(*a_, {}, 5ms).status().code(), Errc::kTimeout);
  EXPECT_EQ(a_->receive_head(kLong).status().code(), Errc::kCancelled);
}

}  // namespace
}  // namespace butterfly::cluster
