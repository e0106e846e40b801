// Exchanges between members over every transport: what comes, where, and what happens when it is not that.
#include "cluster/collective/member_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "base/rng.h"
#include "cluster/testing/linked_pair.h"
#include "cluster/testing/test_identity.h"
#include "cluster/transport/message.h"
#include "cluster/transport/transport_table.h"

namespace butterfly::cluster {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr Duration kLong = 30s;  // tests never wait so long unless they fail

Bytes bytes_of(size_t count, uint64_t seed) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>(random_u64(seed, 1, i / 8) >> (i % 8 * 8));
  return bytes;
}

class MemberLinksTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "mpi" && testing::mpi_job() == nullptr) GTEST_SKIP() << MpiWorld::why_not();
  }
  // Members of a new group, all linked.
  std::vector<std::unique_ptr<MemberLinks>> group(size_t members, MemberLinksOptions options = {}) {
    const auto network =
        std::make_shared<InprocNetwork>(InprocOptions{.messages_max = 4, .bytes_max = 64u << 10});
    std::vector<std::unique_ptr<Transport>> transports;
    for (size_t i = 0; i < members; ++i) {
      const auto tls = identity_.node("m" + std::to_string(i));
      transports.push_back(
          make_transport(GetParam(),
                         {.self = tls->self(), .network = network, .tls = tls, .mpi = testing::mpi_job()})
              .or_throw());
    }
    std::vector<std::vector<std::shared_ptr<Link>>> links(members,
                                                          std::vector<std::shared_ptr<Link>>(members));
    for (size_t to = 0; to < members; ++to) {
      const auto listener =
          transports[to]->listen(testing::place_of(GetParam(), "m" + std::to_string(to))).or_throw();
      for (size_t from = 0; from < to; ++from)
        std::tie(links[from][to], links[to][from]) =
            testing::linked_pair(*transports[from], *transports[to], *listener, kLong);
    }
    std::vector<std::unique_ptr<MemberLinks>> ends;
    options.timeout = kLong;
    for (size_t i = 0; i < members; ++i) {
      ends.push_back(std::make_unique<MemberLinks>(links[i], i, options));
      ends.back()->begin_epoch(7);
    }
    return ends;
  }

  testing::TestIdentity identity_;
};

INSTANTIATE_TEST_SUITE_P(Every, MemberLinksTest, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& row : transports()) names.emplace_back(row.name);
                           return names;
                         }()),
                         [](const auto& test) { return test.param; });

// What member `m` sends in round r as its piece p: sizes from nothing to more than sockets hold.
size_t size_of(size_t m, size_t r, size_t p) {
  constexpr size_t kSizes[] = {0, 1, 4, 8192, 40'000, 600'000, 33};
  return kSizes[(3 * m + 2 * p + r) % std::size(kSizes)];
}

TEST_P(MemberLinksTest, EverybodyGetsWhatTheOthersHave) {
  for (const size_t members : {2, 3, 4}) {
    auto ends = group(members);
    std::vector<std::future<std::string>> done;
    for (size_t self = 0; self < members; ++self)
      done.push_back(std::async(std::launch::async, [&, self]() -> std::string {
        for (size_t round = 0; round < 7; ++round) {
          const size_t pieces = 1 + round % 3;
          std::vector<Bytes> own;
          std::vector<MemberLinks::Outgoing> mine;
          for (size_t p = 0; p < pieces; ++p)
            own.push_back(bytes_of(size_of(self, round, p), 100 * self + p));
          for (const Bytes& piece : own) mine.push_back({piece});
          std::vector<Bytes> came;
          std::vector<MemberLinks::Incoming> from;
          for (size_t m = 0; m < members; ++m)
            for (size_t p = 0; p < pieces && m != self; ++p) came.emplace_back(size_of(m, round, p));
          size_t next = 0;
          for (size_t m = 0; m < members; ++m)
            for (size_t p = 0; p < pieces && m != self; ++p) from.push_back({m, came[next++]});
          if (Status status = ends[self]->run(mine, from); !status) return status.text();
          next = 0;
          for (size_t m = 0; m < members; ++m)
            for (size_t p = 0; p < pieces && m != self; ++p)
              if (came[next++] != bytes_of(size_of(m, round, p), 100 * m + p))
                return "round " + std::to_string(round) + ", piece " + std::to_string(p) + " of " +
                       std::to_string(m);
        }
        return {};
      }));
    for (auto& one : done) EXPECT_EQ(one.get(), "") << members;
  }
}

TEST_P(MemberLinksTest, OneMayBeTheOnlyOneWhoGetsIt) {
  auto ends = group(3);
  const Bytes a = bytes_of(500'000, 1), c = bytes_of(12, 3);
  const MemberLinks::Outgoing of_a[] = {{a, 1}}, of_c[] = {{c, 1}};
  auto first = std::async(std::launch::async, [&] { return ends[0]->run(of_a, {}); });
  auto last = std::async(std::launch::async, [&] { return ends[2]->run(of_c, {}); });
  Bytes from_a(a.size()), from_c(c.size());
  const MemberLinks::Incoming from[] = {{0, from_a}, {2, from_c}};
  EXPECT_EQ(ends[1]->run({}, from).text(), "");
  EXPECT_TRUE(first.get() && last.get());
  EXPECT_EQ(from_a, a);
  EXPECT_EQ(from_c, c);
}

// As slices of a sum go to those who finish them: something else to each, and something to all.
TEST_P(MemberLinksTest, EachMayGetSomethingElse) {
  constexpr size_t kMembers = 4, kCommon = 100;
  auto ends = group(kMembers);
  const auto size = [](size_t from, size_t to) { return 3000 * from + 50'000 * to; };
  const auto seed = [](size_t from, size_t to) { return 10 * from + to; };
  std::vector<std::future<std::string>> done;
  for (size_t self = 0; self < kMembers; ++self)
    done.push_back(std::async(std::launch::async, [&, self]() -> std::string {
      std::vector<Bytes> own(kMembers), theirs(kMembers), common(kMembers);
      std::vector<MemberLinks::Outgoing> mine;
      std::vector<MemberLinks::Incoming> from;
      const Bytes to_all = bytes_of(kCommon, self);
      for (size_t m = 0; m < kMembers; ++m) {
        if (m == self) {
          mine.push_back({to_all});  // between what others get
          continue;
        }
        own[m] = bytes_of(size(self, m), seed(self, m));
        mine.push_back({own[m], m});
        theirs[m].resize(size(m, self));
        common[m].resize(kCommon);
        const MemberLinks::Incoming slice{m, theirs[m]}, shared{m, common[m]};
        from.push_back(m < self ? shared : slice);
        from.push_back(m < self ? slice : shared);
      }
      if (Status status = ends[self]->run(mine, from); !status) return status.text();
      for (size_t m = 0; m < kMembers; ++m)
        if (m != self &&
            (theirs[m] != bytes_of(size(m, self), seed(m, self)) || common[m] != bytes_of(kCommon, m)))
          return "from " + std::to_string(m);
      return {};
    }));
  for (auto& one : done) EXPECT_EQ(one.get(), "");
}

TEST_P(MemberLinksTest, AnotherSizeKindRoundOrEpochNamesTheMember) {
  const auto said = [&](const std::function<void(MemberLinks&)>& other, size_t expected = 8) {
    auto ends = group(2);
    auto sent = std::async(std::launch::async, [&] { other(*ends[1]); });
    Bytes into(expected);
    const MemberLinks::Incoming from[] = {{1, into}};
    const Status status = ends[0]->run({}, from);
    sent.get();
    EXPECT_EQ(status.code(), Errc::kCorrupt) << status.text();
    EXPECT_THAT(status.text(), HasSubstr("member 1 (m1)"));
    return status.text();
  };
  const Bytes eight = bytes_of(8, 1);
  const MemberLinks::Outgoing mine[] = {{eight}};
  EXPECT_THAT(said([&](MemberLinks& end) { (void)end.run(mine, {}); }, 12),
              HasSubstr("with 8 bytes; expected an exchange of epoch 7, round 1, with 12 bytes"));
  EXPECT_THAT(said([&](MemberLinks& end) {
                end.begin_epoch(6);
                (void)end.run(mine, {});
              }),
              HasSubstr("epoch 6"));
  EXPECT_THAT(said([&](MemberLinks& end) {
                (void)end.run({}, {});
                (void)end.run(mine, {});
              }),
              HasSubstr("round 2"));
  EXPECT_THAT(said([&](MemberLinks& end) {
                (void)send_message(end.link(0), {.kind = MessageKind::kTokens, .epoch = 7, .step = 1}, eight,
                                   kLong);
              }),
              HasSubstr("kind 4"));
}

TEST_P(MemberLinksTest, AMemberThatIsLostEndsTheRoundOfAll) {
  auto ends = group(3);
  const Bytes large = bytes_of(2'000'000, 1);
  const MemberLinks::Outgoing mine[] = {{large}};
  const auto take_part = [&](size_t self, size_t a, size_t b) {
    Bytes into(large.size()), more(large.size());
    const MemberLinks::Incoming from[] = {{a, into}, {b, more}};
    return ends[self]->run(mine, from);
  };
  auto first = std::async(std::launch::async, [&] { return take_part(0, 1, 2); });
  auto second = std::async(std::launch::async, [&] {
    const Status status = take_part(1, 0, 2);
    ends[1]->close();
    return status;
  });
  ends[2]->close();
  const Status one = second.get(), other = first.get();
  EXPECT_EQ(one.code(), Errc::kPeerLost) << one.text();
  EXPECT_EQ(other.code(), Errc::kPeerLost) << other.text();
  EXPECT_THAT(one.text(), HasSubstr("member"));
}

// Two rounds under way while nobody waits, as halves of a step have them; then one as before.
TEST_P(MemberLinksTest, RoundsGoOnWhileTheCallerComputes) {
  for (const size_t members : {2, 3}) {
    auto ends = group(members);
    std::vector<std::future<std::string>> done;
    for (size_t self = 0; self < members; ++self)
      done.push_back(std::async(std::launch::async, [&, self]() -> std::string {
        struct Half {
          Bytes own;
          std::vector<Bytes> came;
        } halves[2];
        const auto seed = [](size_t member, size_t round) { return 100 * member + round; };
        const auto start = [&](Half& half, size_t round, bool at_once) {
          half.own = bytes_of(size_of(self, round, 0), seed(self, round));
          half.came.assign(members, {});
          const MemberLinks::Outgoing mine[] = {{half.own}};
          std::vector<MemberLinks::Incoming> from;
          for (size_t m = 0; m < members; ++m) {
            if (m == self) continue;
            half.came[m].resize(size_of(m, round, 0));
            from.push_back({m, half.came[m]});
          }
          if (at_once) return ends[self]->run(mine, from);
          ends[self]->start(mine, from);
          return Status();
        };
        const auto wrong = [&](const Half& half, size_t round) {
          for (size_t m = 0; m < members; ++m)
            if (m != self && half.came[m] != bytes_of(size_of(m, round, 0), seed(m, round))) return true;
          return false;
        };
        start(halves[0], 0, false);
        for (size_t round = 1; round < 12; ++round) {
          start(halves[round % 2], round, false);
          if (Status status = ends[self]->finish(); !status) return status.text();
          if (wrong(halves[(round - 1) % 2], round - 1)) return "round " + std::to_string(round - 1);
        }
        if (Status status = ends[self]->finish(); !status || wrong(halves[1], 11)) return "the last of them";
        if (Status status = start(halves[0], 5, true); !status || wrong(halves[0], 5)) return "one at once";
        return {};
      }));
    for (auto& one : done) EXPECT_EQ(one.get(), "") << members;
  }
}

TEST_P(MemberLinksTest, WhatIsUnderWayEndsWithTheMember) {
  auto ends = group(2);
  const Bytes large = bytes_of(3'000'000, 1);
  const MemberLinks::Outgoing mine[] = {{large}};
  Bytes into(large.size()), more(large.size());
  const MemberLinks::Incoming first[] = {{1, into}}, second[] = {{1, more}};
  ends[0]->start(mine, first);
  ends[0]->start(mine, second);
  ends[1]->close();
  EXPECT_EQ(ends[0]->finish().code(), Errc::kPeerLost);
  EXPECT_FALSE(ends[0]->finish());
}

TEST_P(MemberLinksTest, ClosingWakesWhoWaits) {
  auto ends = group(2, {.timeout = kLong, .spin = 0s, .safe_bytes = 32u << 10});
  Bytes into(8);
  const MemberLinks::Incoming from[] = {{1, into}};
  auto waits = std::async(std::launch::async, [&] { return ends[0]->run({}, from); });
  while (!ends[0]->waiting()) std::this_thread::yield();
  ends[0]->close();
  EXPECT_EQ(waits.get().code(), Errc::kCancelled);
  EXPECT_FALSE(ends[0]->waiting());
}

}  // namespace
}  // namespace butterfly::cluster
