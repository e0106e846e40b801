#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/lead/lead_seat.h"
#include "cluster/lead/lead_voter.h"
#include "cluster/testing/test_identity.h"

namespace butterfly::cluster {
namespace {

using std::chrono::seconds;
constexpr Duration kLease = seconds(3);
const TimePoint kStart{std::chrono::hours(1)};

Mandate mandate_of_three() {
  return {.version = 2, .seats = {{"a", "A"}, {"b", "B"}}, .voters = {{"a", "A"}, {"b", "B"}, {"c", "C"}}};
}
LeadQuestion question_of(LeadQuestion::Kind kind, Term term, const std::string& holder) {
  return {.kind = kind, .number = 7, .term = term, .holder = holder, .mandate = mandate_of_three()};
}
using Kind = LeadQuestion::Kind;

TEST(Mandate, OnlyTheAuthoritySignsIt) {
  const testing::TestIdentity cluster("one"), other("two");
  Mandate mandate = mandate_of_three();
  EXPECT_FALSE(mandate.signed_by(cluster.authority.certificate()));
  mandate.sign(cluster.authority);
  EXPECT_TRUE(mandate.signed_by(cluster.authority.certificate()));
  EXPECT_FALSE(mandate.signed_by(other.authority.certificate()));
  mandate.seats.push_back({"c", "C"});
  EXPECT_FALSE(mandate.signed_by(cluster.authority.certificate())) << "another list";
}

TEST(Mandate, AMajorityOfBothListsIsAQuorum) {
  Mandate mandate = mandate_of_three();
  const auto agree = [](std::string keys) {
    return [keys](const std::string& key) { return keys.find(key) != std::string::npos; };
  };
  EXPECT_FALSE(mandate.quorum(agree("a")));
  EXPECT_TRUE(mandate.quorum(agree("ac")));
  mandate.before = {{"d", "D"}};
  EXPECT_FALSE(mandate.quorum(agree("ac")));
  EXPECT_TRUE(mandate.quorum(agree("acd")));
}

TEST(LeadRecord, ComesBackAsItWas) {
  VoterRecord record{
      .promised = 9, .holder = "a:1", .mandate = mandate_of_three(), .sync = {9, 2, {"a", "b"}}};
  record.mandate.before = {{"d", "D"}};
  EXPECT_EQ(VoterRecord::decode(record.encode()).or_throw(), record);
  for (size_t size = 0; size < record.encode().size(); ++size)
    EXPECT_FALSE(VoterRecord::decode(record.encode().substr(0, size)).ok()) << size;
  LeadQuestion question = question_of(Kind::kCopy, 4, "a:1");
  question.lines = "x\n";
  question.anew = true;
  question.addresses = {{"a", "10.0.0.1:7741"}};
  const auto read = LeadQuestion::decode(question.encode()).or_throw();
  EXPECT_EQ(read.lines, "x\n");
  EXPECT_EQ(read.addresses, question.addresses);
  EXPECT_TRUE(read.anew);
}

TEST(LeadVoter, OneHolderAtATime) {
  LeadVoter voter({}, kLease, kStart);
  EXPECT_TRUE(voter.answer(question_of(Kind::kClaim, 5, "a:1"), "a", kStart).granted);
  EXPECT_FALSE(voter.answer(question_of(Kind::kClaim, 6, "b:1"), "b", kStart + seconds(2)).granted)
      << "a has its time";
  EXPECT_TRUE(voter.answer(question_of(Kind::kRenew, 5, "a:1"), "a", kStart + seconds(2)).granted);
  EXPECT_FALSE(voter.answer(question_of(Kind::kClaim, 6, "b:1"), "b", kStart + seconds(4)).granted);
  EXPECT_TRUE(voter.answer(question_of(Kind::kClaim, 6, "b:1"), "b", kStart + seconds(6)).granted);
  EXPECT_FALSE(voter.answer(question_of(Kind::kRenew, 5, "a:1"), "a", kStart + seconds(60)).granted)
      << "over for good";
  EXPECT_FALSE(voter.answer(question_of(Kind::kCopy, 5, "a:1"), "a", kStart + seconds(60)).granted);
}

TEST(LeadVoter, ACopiedStateFolderIsSomebodyElse) {
  LeadVoter voter({}, kLease, kStart);
  ASSERT_TRUE(voter.answer(question_of(Kind::kClaim, 5, "a:1"), "a", kStart).granted);
  EXPECT_FALSE(voter.answer(question_of(Kind::kClaim, 6, "a:2"), "a", kStart + seconds(1)).granted);
  EXPECT_FALSE(voter.answer(question_of(Kind::kRenew, 5, "a:2"), "a", kStart + seconds(1)).granted);
}

TEST(LeadVoter, AProcessThatBeginsAgainWaits) {
  LeadVoter voter({.promised = 5, .holder = "a:1", .mandate = mandate_of_three()}, kLease, kStart);
  EXPECT_FALSE(voter.answer(question_of(Kind::kClaim, 6, "b:1"), "b", kStart + seconds(2)).granted);
  EXPECT_TRUE(voter.answer(question_of(Kind::kClaim, 6, "b:1"), "b", kStart + seconds(3)).granted);
}

TEST(LeadVoter, OnlySeatsAreVotedFor) {
  LeadVoter voter({}, kLease, kStart);
  EXPECT_FALSE(voter.answer(question_of(Kind::kClaim, 5, "c:1"), "c", kStart).granted);
  EXPECT_FALSE(voter.answer(question_of(Kind::kClaim, 5, "a:1"), "b", kStart).granted) << "in another's name";
}

// Of two seats nobody can know whether the other is gone or only cut off.
TEST(LeadSeat, WithFewerThanThreeVotersAPersonDecides) {
  const Mandate two{.version = 2, .seats = {{"a", "A"}, {"b", "B"}}, .voters = {{"a", "A"}}};
  LeadSeat seat({.self = {"b", "B"}, .instance = "1"}, {.promised = 5, .holder = "a:1", .mandate = two},
                kStart);
  TimePoint now = kStart;
  for (int i = 0; i < 1000; ++i, now += std::chrono::milliseconds(50)) {
    seat.own_vote({.promised = 5, .holder = "a:1", .mandate = two}, {});
    seat.tick(now);
    seat.take_questions();
  }
  EXPECT_NE(seat.role(), LeadSeat::Role::kLeading);
  seat.take_lead(now);
  EXPECT_EQ(seat.role(), LeadSeat::Role::kLeading);
  EXPECT_GT(seat.term(), 5u);
  EXPECT_FALSE(seat.may_speak(now)) << "its own vote is not on disk yet";
  const LeadAnswer own{
      .number = 1, .granted = true, .record = {.promised = seat.term(), .holder = seat.holder()}};
  seat.tick(now);
  const auto asked = seat.take_questions();
  ASSERT_FALSE(asked.empty());
  LeadAnswer answer = own;
  answer.number = asked.back().question.number;
  seat.answered("b", answer, now);
  EXPECT_TRUE(seat.may_speak(now));
}

}  // namespace
}  // namespace butterfly::cluster
