// Messages are taken by the computing thread while it waits or sends, those that must wait by the link's own,
// and one may change hands in the middle; whoever it is, nothing is lost, out of order or left lying.
#include "runtime/training/link_readers.h"

#include <gtest/gtest.h>

#include <map>

#include "cluster/testing/test_identity.h"
#include "cluster/transport/tcp.h"

namespace butterfly::runtime {
namespace {

using namespace std::chrono_literals;

struct LinkReadersTest : ::testing::Test {
  // `link`: the end that is read; `peer`: the other one.
  struct Pair {
    std::shared_ptr<TrainLink> link, peer;
    LinkReaders::Take take;
    std::thread thread;
    Status ended;
  };
  struct Came {
    size_t from;
    uint64_t step;
    std::thread::id thread;
  };

  void TearDown() override {
    readers.stop();
    for (auto& [from, pair] : pairs) {
      pair.peer->close();
      pair.link->close();
      if (pair.thread.joinable()) pair.thread.join();
    }
  }

  Pair& connect(size_t from) {
    Pair& pair = pairs[from];
    std::thread calling([&] {
      pair.peer =
          std::make_shared<TrainLink>(cluster::tcp_connect(calls, listener->address(), "", 10s).or_throw());
    });
    pair.link = std::make_shared<TrainLink>(listener->accept(10s).or_throw());
    calling.join();
    pair.take = [this, from, &pair](const TrainLink::Incoming& incoming,
                                    bool patient) -> Result<LinkReaders::Taken> {
      const uint64_t step = incoming.head.step;
      if (step == held_step) {
        if (!patient) return LinkReaders::Taken{.later = true};
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return !held; });
      }
      if (step == kThrows) throw Error(Errc::kCorrupt, "as asked");
      if (step == kWrong) return Status(Errc::kCorrupt, "wrong");
      if (step == kDropped) return LinkReaders::drop(*pair.link, incoming);
      auto bytes = std::make_shared<std::vector<std::byte>>(incoming.value_bytes);
      const std::span<std::byte> whole(*bytes);
      const size_t half = whole.size() / 2;
      const std::array pieces{whole.first(half), std::span<std::byte>(), whole.subspan(half)};
      pair.link->place_values(incoming, pieces);
      return LinkReaders::Taken{.placed = [this, from, step, bytes](const Status& status) {
        const std::lock_guard lock(mutex);
        if (status) {
          EXPECT_TRUE(*bytes == contents(step, bytes->size())) << from << ", step " << step;
          came.push_back({from, step, std::this_thread::get_id()});
        } else {
          ++cut;
        }
        changed.notify_all();
        readers.wake();
        return status;
      }};
    };
    pair.thread = std::thread([this, &pair] {
      try {
        pair.ended = readers.read(*pair.link, pair.take);
      } catch (const Error& error) {
        pair.ended = {error.code(), error.what()};
      }
      const std::lock_guard lock(mutex);
      ++ended;
      changed.notify_all();
      readers.wake();
    });
    return pair;
  }
  static std::vector<std::byte> contents(uint64_t step, size_t bytes) {
    std::vector<std::byte> values(bytes);
    for (size_t i = 0; i < bytes; ++i) values[i] = std::byte(step + i + i / 251);
    return values;
  }
  void send(Pair& pair, uint64_t step, size_t bytes = 100) {
    const std::vector<std::byte> values = contents(step, bytes);
    const std::span<const std::byte> piece(values);
    ASSERT_TRUE(pair.peer->send_values(1, step, {.what = cluster::TrainValues::kGradients}, {&piece, 1}));
  }
  // On the computing thread.
  void wait_for(size_t count) {
    readers.wait(system_now() + 20s, [&] { return size() >= count; });
    ASSERT_GE(size(), count);
  }
  // As if it computed.
  void sleep_until(size_t count) {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, 20s, [&] { return came.size() >= count; }));
  }
  size_t size() {
    const std::lock_guard lock(mutex);
    return came.size();
  }
  bool took(size_t i) const { return came[i].thread == std::this_thread::get_id(); }

  static constexpr uint64_t kThrows = 200, kWrong = 201, kDropped = 202;
  const cluster::testing::TestIdentity identity;
  const std::shared_ptr<cluster::NodeTls> calls = identity.node("calls"), listens = identity.node("listens");
  const std::unique_ptr<cluster::Listener> listener = cluster::tcp_listen(listens, "127.0.0.1:0").or_throw();
  std::mutex mutex;
  std::condition_variable changed;
  bool held = true;
  std::atomic<uint64_t> held_step = 0;
  std::vector<Came> came;
  size_t ended = 0, cut = 0;
  LinkReaders readers;
  std::map<size_t, Pair> pairs;
};

TEST_F(LinkReadersTest, TheComputingThreadTakesWhatIsSmall) {
  Pair& pair = connect(1);
  // The link is lent behind the first one that comes while the thread waits.
  for (uint64_t step = 1; step <= 50; ++step) {
    send(pair, step);
    wait_for(step);
  }
  for (uint64_t i = 0; i < 50; ++i) EXPECT_EQ(came[i].step, i + 1);
  EXPECT_FALSE(took(0));
  size_t own = 0;
  for (size_t i = 0; i < 50; ++i) own += took(i) ? 1 : 0;
  EXPECT_GE(own, 25u) << "on a machine that does other things too, most should be its own";
}

TEST_F(LinkReadersTest, ThreadsTakeLinksBackWhenItComputes) {
  Pair& pair = connect(1);
  send(pair, 1);
  wait_for(1);
  std::this_thread::sleep_for(10 * LinkReaders::kBusyMax);
  send(pair, 2);
  sleep_until(2);
  EXPECT_FALSE(took(1));
}

// Half of it while the computing thread waits, the rest when it computes; and the other way round.
TEST_F(LinkReadersTest, ALargeOneChangesHandsInTheMiddle) {
  Pair& pair = connect(1);
  send(pair, 1);
  wait_for(1);
  constexpr size_t kBytes = 3 << 20;
  for (uint64_t step = 2; step <= 9; ++step) {
    const std::vector<std::byte> values = contents(step, kBytes);
    const std::span<const std::byte> piece(values);
    const TrainLink::Outgoing out(1, step, {.what = cluster::TrainValues::kGradients}, {&piece, 1});
    ASSERT_TRUE(pair.peer->begin_values(out));
    size_t sent = 0;
    const auto send_until = [&](size_t bytes, FunctionRef<void()> meanwhile) {
      while (sent < bytes) {
        const auto moved = pair.peer->send_some();
        ASSERT_TRUE(moved) << moved.status().text();
        sent += moved->bytes;
        if (moved->all) return;
        meanwhile();
      }
    };
    send_until(kBytes / 3, [&] { readers.wait(system_now() + 1ms, [] { return false; }); });
    if (step % 2 == 0) std::this_thread::sleep_for(3 * LinkReaders::kBusyMax);
    std::thread rest([&] { send_until(SIZE_MAX, [] { std::this_thread::yield(); }); });
    if (step % 2 == 0)
      sleep_until(step);
    else
      wait_for(step);
    rest.join();
  }
  for (size_t i = 0; i < came.size(); ++i) EXPECT_EQ(came[i].step, i + 1);
}

// Two that compute send each other far more than their sockets hold, and both are done.
TEST_F(LinkReadersTest, TwoSendEachOtherMoreThanSocketsHold) {
  Pair& pair = connect(1);
  pair.link->set_socket_bytes(64 << 10);
  pair.peer->set_socket_bytes(64 << 10);
  const size_t kBytes = 2 << 20;
  // The other one's own readers.
  LinkReaders theirs;
  std::vector<std::byte> got(kBytes);
  std::atomic<uint64_t> step_there = 0;
  std::thread reading([&] {
    (void)theirs.read(
        *pair.peer, [&](const TrainLink::Incoming& incoming, bool) -> Result<LinkReaders::Taken> {
          const std::span<std::byte> piece = std::span(got).first(incoming.value_bytes);
          pair.peer->place_values(incoming, {&piece, 1});
          return LinkReaders::Taken{.placed = [&, step = incoming.head.step](const Status& status) {
            if (status) step_there = step;
            theirs.wake();
            return status;
          }};
        });
  });
  const auto side = [&](LinkReaders& readers_here, const std::shared_ptr<TrainLink>& link,
                        FunctionRef<bool(uint64_t)> here) {
    for (uint64_t step = 1; step <= 5; ++step) {
      const std::vector<std::byte> values = contents(step, kBytes - step);
      const std::span<const std::byte> piece(values);
      std::vector<LinkReaders::Sending> all;
      all.push_back(
          {.link = link, .values = {1, step, {.what = cluster::TrainValues::kGradients}, {&piece, 1}}});
      readers_here.send(all);
      ASSERT_TRUE(all[0].status) << all[0].status.text();
      const TimePoint until = system_now() + 60s;
      readers_here.wait(until, [&] { return here(step); });
      ASSERT_TRUE(here(step));
    }
  };
  std::thread other([&] { side(theirs, pair.peer, [&](uint64_t step) { return step_there >= step; }); });
  side(readers, pair.link, [&](uint64_t step) { return size() >= step; });
  other.join();
  EXPECT_TRUE(std::equal(got.begin(), got.end() - 5, contents(5, kBytes - 5).begin()));
  theirs.stop();
  pair.peer->close();
  reading.join();
}

// A peer that stops reading holds up what goes to it, and nothing else; when its link is over the send ends.
TEST_F(LinkReadersTest, APeerThatTakesNothingHoldsUpNobodyElse) {
  Pair &one = connect(1), &other = connect(2);
  send(one, 1);
  wait_for(1);
  const std::vector<std::byte> values = contents(1, 64 << 20);
  const std::span<const std::byte> large(values), small = large.first(1000);
  std::vector<LinkReaders::Sending> all;
  for (const auto& [pair, piece] : {std::pair{&one, &large}, std::pair{&other, &small}})
    all.push_back(
        {.link = pair->link, .values = {1, 1, {.what = cluster::TrainValues::kWeights}, {piece, 1}}});
  std::thread peers([&] {
    std::vector<std::byte> got(small.size());
    const std::span<std::byte> piece(got);
    const auto incoming = other.peer->receive(20s);
    ASSERT_TRUE(incoming) << incoming.status().text();
    EXPECT_TRUE(other.peer->receive_values(*incoming, {&piece, 1}));
    EXPECT_TRUE(std::ranges::equal(got, small));
    // What it sends itself is taken meanwhile.
    for (uint64_t step = 2; step <= 5; ++step) send(one, step, 200'000);
    sleep_until(5);
    one.peer->close();
  });
  readers.send(all);
  peers.join();
  EXPECT_EQ(all[0].status.code(), Errc::kPeerLost) << all[0].status.text();
  EXPECT_TRUE(all[1].status) << all[1].status.text();
  // The link is free for others, who hear the same.
  const std::span<const std::byte> piece = small;
  EXPECT_FALSE(one.link->send_values(1, 9, {}, {&piece, 1}));
}

TEST_F(LinkReadersTest, WhatNobodyWantsIsSkipped) {
  Pair& pair = connect(1);
  send(pair, 1);
  send(pair, kDropped, 1 << 20);
  send(pair, 3);
  wait_for(2);
  EXPECT_EQ(came[1].step, 3u);
}

// Its link ends in the middle of values that were placed.
TEST_F(LinkReadersTest, WhoPlacedValuesHearsThatTheyAreCut) {
  Pair& pair = connect(1);
  send(pair, 1);
  wait_for(1);
  const std::vector<std::byte> values = contents(1, 1 << 20);
  const std::span<const std::byte> piece(values);
  const TrainLink::Outgoing out(1, 2, {.what = cluster::TrainValues::kGradients}, {&piece, 1});
  ASSERT_TRUE(pair.peer->begin_values(out));
  ASSERT_TRUE(pair.peer->send_some());
  readers.wait(system_now() + 20ms, [] { return false; });
  pair.peer->close();
  readers.wait(system_now() + 20s, [&] {
    const std::lock_guard lock(mutex);
    return ended == 1;
  });
  pair.thread.join();
  EXPECT_EQ(cut, 1u);
  EXPECT_EQ(pair.ended.code(), Errc::kPeerLost) << pair.ended.text();
}

TEST_F(LinkReadersTest, WhatHasToWaitHoldsUpItsOwnLinkAlone) {
  Pair &one = connect(1), &other = connect(2);
  send(one, 1);
  send(other, 1);
  wait_for(2);
  held_step = 7;
  send(one, 7);
  send(one, 8);
  for (uint64_t step = 2; step <= 10; ++step) {
    if (step == 7) continue;
    send(other, step);
    wait_for(size() + 1);
  }
  const size_t before = size();
  {
    const std::lock_guard lock(mutex);
    for (const Came& it : came) EXPECT_TRUE(it.from == 2 || it.step == 1);
    held = false;
    changed.notify_all();
  }
  held_step = 0;
  readers.wake();
  wait_for(before + 2);
  EXPECT_EQ(came[before].step, 7u);
  EXPECT_EQ(came[before + 1].step, 8u);
}

TEST_F(LinkReadersTest, ManyThatLieThereAreTakenInOrder) {
  Pair& pair = connect(1);
  send(pair, 1);
  wait_for(1);
  for (uint64_t step = 2; step <= 150; ++step) send(pair, step, 1);
  wait_for(150);
  for (uint64_t i = 0; i < 150; ++i) EXPECT_EQ(came[i].step, i + 1);
}

TEST_F(LinkReadersTest, AnEndOrAnErrorComesOutOfRead) {
  for (const size_t from : {1, 2, 3}) {
    send(connect(from), 1);
    wait_for(from);
  }
  send(pairs[1], kThrows);
  send(pairs[2], kWrong);
  pairs[3].peer->close();
  readers.wait(system_now() + 20s, [&] {
    const std::lock_guard lock(mutex);
    return ended == 3;
  });
  for (auto& [from, pair] : pairs) pair.thread.join();
  EXPECT_EQ(pairs[1].ended.code(), Errc::kCorrupt);
  EXPECT_EQ(pairs[2].ended.code(), Errc::kCorrupt);
  EXPECT_EQ(pairs[3].ended.code(), Errc::kPeerLost) << pairs[3].ended.text();
}

TEST_F(LinkReadersTest, WakeAndStopEndAWait) {
  send(connect(1), 1);
  wait_for(1);
  std::atomic<bool> enough = false;
  std::thread waker([&] {
    std::this_thread::sleep_for(20ms);
    enough = true;
    readers.wake();
  });
  const TimePoint start = system_now();
  readers.wait(start + 20s, [&] { return enough.load(); });
  waker.join();
  EXPECT_LT(system_now() - start, 10s);
  std::thread stopper([&] {
    std::this_thread::sleep_for(20ms);
    readers.stop();
  });
  readers.wait(start + 40s, [] { return false; });
  stopper.join();
  EXPECT_LT(system_now() - start, 10s);
  // Its own thread goes on.
  send(pairs[1], 2);
  sleep_until(2);
  EXPECT_FALSE(took(1));
}

}  // namespace
}  // namespace butterfly::runtime
