#include "runtime/nodes/control_link.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <future>

#include "cluster/transport/inproc.h"
#include "runtime/nodes/control_links.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kLong = std::chrono::seconds(30);

std::vector<std::byte> body_of(size_t bytes) { return std::vector<std::byte>(bytes, std::byte{42}); }

TEST(ControlLinkTest, MessagesComeInOrderAndTheEndComesLast) {
  auto [here, there] = cluster::inproc_pair({"a", "a"}, {"b", "b"});
  std::promise<std::string> closed;
  std::vector<size_t> sizes;
  ControlLink link(std::move(here), 1000,
                   {[&](cluster::Message message) { sizes.push_back(message.body.size()); },
                    [&](const std::string& why) { closed.set_value(why); }});
  for (size_t i = 1; i <= 20; ++i)
    ASSERT_TRUE(
        cluster::send_message(*there, {.kind = cluster::MessageKind::kControl}, body_of(i), kLong).ok());
  there->close();
  EXPECT_FALSE(closed.get_future().get().empty());
  ASSERT_EQ(sizes.size(), 20u);
  for (size_t i = 0; i < sizes.size(); ++i) EXPECT_EQ(sizes[i], i + 1);
}

TEST(ControlLinkTest, WhatWasSentBeforeCloseArrives) {
  auto [here, there] = cluster::inproc_pair({"a", "a"}, {"b", "b"});
  ControlLink link(std::move(here), 1000, {[](cluster::Message) {}, [](const std::string&) {}});
  for (size_t i = 0; i < 10; ++i) link.send({.kind = cluster::MessageKind::kControl}, body_of(i));
  link.close();
  for (size_t i = 0; i < 10; ++i) {
    const auto message = cluster::receive_message(*there, 1000, kLong);
    ASSERT_TRUE(message.ok()) << i << ": " << message.status().text();
    EXPECT_EQ(message->body.size(), i);
  }
  EXPECT_FALSE(cluster::receive_message(*there, 1000, kLong).ok());
}

TEST(ControlLinkTest, AMessageThatIsTooLongBreaksTheLink) {
  auto [here, there] = cluster::inproc_pair({"a", "a"}, {"b", "b"});
  std::promise<std::string> closed;
  ControlLink link(
      std::move(here), 100,
      {[](cluster::Message) { FAIL(); }, [&](const std::string& why) { closed.set_value(why); }});
  (void)cluster::send_message(*there, {.kind = cluster::MessageKind::kControl}, body_of(101), kLong);
  EXPECT_FALSE(closed.get_future().get().empty());
}

TEST(EventLoopTest, EventsRunInOrderAndTicksInBetween) {
  std::atomic<int> ticks{0};
  EventLoop loop([&] { ++ticks; }, std::chrono::milliseconds(1));
  loop.start();
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) loop.post([&order, i] { order.push_back(i); });
  EXPECT_EQ(loop.ask([&] { return order.size(); }), 100u);
  while (ticks < 3) std::this_thread::yield();
  loop.stop();
  loop.post([&] { order.push_back(-1); });
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
  EXPECT_EQ(order.size(), 100u) << "nothing runs after stop()";
}

// On a busy machine a tick may take longer than the time between two of them.
TEST(EventLoopTest, TicksThatAreAlwaysDueLeaveRoomForEvents) {
  EventLoop loop([] {}, Duration(0));
  loop.start();
  std::atomic<int> done{0};
  for (int i = 0; i < 100; ++i) loop.post([&] { ++done; });
  for (const auto end = SystemClock::instance().now() + kLong; done < 100;)
    ASSERT_LT(SystemClock::instance().now(), end);
}

TEST(EventLoopTest, AQuestionIsAnsweredWhetherTheLoopRunsOrNot) {
  EventLoop loop([] {}, std::chrono::hours(1));
  EXPECT_EQ(loop.ask([] { return 1; }), 1) << "not started";
  loop.start();
  EXPECT_EQ(loop.ask([] { return 2; }), 2);
  std::thread stops([&] { loop.stop(); });
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(loop.ask([&] { return i; }), i);
  stops.join();
  EXPECT_EQ(loop.ask([] { return 3; }), 3);
}

TEST(ControlLinksTest, WhatComesIsAnEventOfTheLoop) {
  EventLoop loop([] {}, std::chrono::hours(1));
  std::vector<std::string> story;
  std::promise<void> closed;
  ControlLinks links(loop, {[&](cluster::LinkNumber link, const cluster::Message& message) {
                              story.push_back(fmt::format("{}: {}", link, message.body.size()));
                            },
                            [&](cluster::LinkNumber link, const std::string&) {
                              story.push_back(fmt::format("{} closed", link));
                              closed.set_value();
                            }});
  loop.start();
  auto [a, a_there] = cluster::inproc_pair({"me", "me"}, {"a", "a"});
  auto [b, b_there] = cluster::inproc_pair({"me", "me"}, {"b", "b"});
  EXPECT_EQ(loop.ask([&] { return links.add(std::move(a)); }), 1u);
  EXPECT_EQ(loop.ask([&] { return links.add(std::move(b)); }), 2u);
  (void)cluster::send_message(*b_there, {.kind = cluster::MessageKind::kControl}, body_of(7), kLong);
  loop.ask([&] {
    links.send(1, {.kind = cluster::MessageKind::kControl}, body_of(3));
    links.send(9, {.kind = cluster::MessageKind::kControl}, body_of(3));  // nobody is there
    return true;
  });
  EXPECT_EQ(cluster::receive_message(*a_there, 1000, kLong)->body.size(), 3u);
  b_there->close();
  closed.get_future().wait();
  loop.stop();
  links.clear();
  EXPECT_EQ(story, (std::vector<std::string>{"2: 7", "2 closed"}));
  EXPECT_FALSE(cluster::receive_message(*a_there, 1000, kLong).ok());
}

// The loop is busy, and one peer talks without end: it has to wait, and the others are heard.
TEST(ControlLinksTest, OneThatSaysTooMuchFillsNoMemory) {
  EventLoop loop([] {}, std::chrono::hours(1));
  std::promise<void> heard_b;
  std::promise<void> go_on;
  std::atomic<size_t> heard_a{0};
  ControlLinks links(loop, {[&](cluster::LinkNumber link, const cluster::Message&) {
                              if (link == 2) return heard_b.set_value();
                              ++heard_a;
                            },
                            [](cluster::LinkNumber, const std::string&) {}});
  loop.start();
  constexpr size_t kInLink = 4;
  auto [a, a_there] = cluster::inproc_pair({"me", "me"}, {"a", "a"}, {.messages_max = kInLink});
  auto [b, b_there] = cluster::inproc_pair({"me", "me"}, {"b", "b"});
  loop.ask([&] { return links.add(std::move(a)); });
  loop.ask([&] { return links.add(std::move(b)); });
  loop.post([&] { go_on.get_future().wait(); });
  size_t taken = 0;
  while (taken < 10 * ControlLinks::kUnheardMax &&
         cluster::send_message(*a_there, {.kind = cluster::MessageKind::kControl}, body_of(9),
                               std::chrono::milliseconds(200))
             .ok())
    ++taken;
  EXPECT_LE(taken, ControlLinks::kUnheardMax + kInLink + 2);
  ASSERT_TRUE(
      cluster::send_message(*b_there, {.kind = cluster::MessageKind::kControl}, body_of(9), kLong).ok());
  go_on.set_value();
  EXPECT_EQ(heard_b.get_future().wait_for(kLong), std::future_status::ready);
  loop.stop();
  links.clear();
  EXPECT_GE(heard_a, ControlLinks::kUnheardMax);
}

// By what it let wait, and not by the time that a message waits for it: what it would read now is thrown
// away.
TEST(ControlLinkTest, APeerThatReadsNothingIsCutOffByBytes) {
  constexpr size_t kInLink = 1;
  auto [here, there] = cluster::inproc_pair({"a", "a"}, {"b", "b"}, {.messages_max = kInLink});
  std::promise<std::string> closed;
  constexpr size_t kEach = size_t{64} << 10;
  ControlLink link(std::move(here), 1000,
                   {[](cluster::Message) {}, [&](const std::string& why) { closed.set_value(why); }});
  for (size_t i = 0; i < ControlLink::kQueueBytesMax / kEach + kInLink + 2; ++i)
    link.send({.kind = cluster::MessageKind::kControl}, body_of(kEach));
  // What is on its way: in the link, and in the hands of the sending thread.
  size_t received = 0;
  while (received <= kInLink + 1 && cluster::receive_message(*there, kEach, kLong).ok()) ++received;
  EXPECT_LE(received, kInLink + 1);
  EXPECT_EQ(closed.get_future().wait_for(kLong), std::future_status::ready);
}

}  // namespace
}  // namespace butterfly::runtime
