// Small messages are taken by the computing thread while it waits, large ones and those that must wait by the
// link's own; whoever it is, nothing is lost, out of order or left lying.
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
    std::unique_ptr<TrainLink> link, peer;
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
          std::make_unique<TrainLink>(cluster::tcp_connect(calls, listener->address(), "", 10s).or_throw());
    });
    pair.link = std::make_unique<TrainLink>(listener->accept(10s).or_throw());
    calling.join();
    pair.take = [this, from, &pair](const TrainLink::Incoming& incoming, bool patient) -> Result<bool> {
      const uint64_t step = incoming.head.step;
      if (step == held_step) {
        if (!patient) return false;
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return !held; });
      }
      if (step == kThrows) throw Error(Errc::kCorrupt, "as asked");
      if (step == kWrong) return Status(Errc::kCorrupt, "wrong");
      std::vector<std::byte> bytes(incoming.value_bytes);
      const std::span<std::byte> piece(bytes);
      if (Status status = pair.link->receive_values(incoming, {&piece, 1}); !status) return status;
      for (const std::byte byte : bytes) EXPECT_EQ(byte, std::byte(step));
      const std::lock_guard lock(mutex);
      came.push_back({from, step, std::this_thread::get_id()});
      changed.notify_all();
      readers.wake();
      return true;
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
  void send(Pair& pair, uint64_t step, size_t bytes = 100) {
    const std::vector<std::byte> values(bytes, std::byte(step));
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

  static constexpr uint64_t kThrows = 200, kWrong = 201;
  const cluster::testing::TestIdentity identity;
  const std::shared_ptr<cluster::NodeTls> calls = identity.node("calls"), listens = identity.node("listens");
  const std::unique_ptr<cluster::Listener> listener = cluster::tcp_listen(listens, "127.0.0.1:0").or_throw();
  std::mutex mutex;
  std::condition_variable changed;
  bool held = true;
  std::atomic<uint64_t> held_step = 0;
  std::vector<Came> came;
  size_t ended = 0;
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

TEST_F(LinkReadersTest, LargeOnesAreForTheLinksOwnThread) {
  Pair& pair = connect(1);
  for (uint64_t step = 1; step <= 20; ++step) {
    send(pair, step, step % 2 == 0 ? LinkReaders::kSmallBytesMax + 1 : 10);
    wait_for(step);
  }
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(came[i].step, i + 1);
    if (i % 2 == 1) {
      EXPECT_FALSE(took(i)) << i;
    }
  }
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
