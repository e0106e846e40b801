#include "cluster/transport/resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <thread>

namespace butterfly::cluster {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// A name server that answers when the test says so.
struct SlowServer : std::enable_shared_from_this<SlowServer> {
  std::mutex mutex;
  std::condition_variable changed;
  bool answers = false;
  std::atomic<int> asked{0};

  Resolver::LookUp look_up() {
    // A question that nobody waits for any more may outlive the test.
    return
        [self = shared_from_this()](const char*, const char* port, const addrinfo* hints, addrinfo** list) {
          ++self->asked;
          std::unique_lock lock(self->mutex);
          self->changed.wait(lock, [&] { return self->answers; });
          return ::getaddrinfo("127.0.0.1", port, hints, list);
        };
  }
  void answer() {
    const std::lock_guard lock(mutex);
    answers = true;
    changed.notify_all();
  }
};

Deadline in(Duration time) { return Deadline(SystemClock::instance(), time); }

TEST(ResolverTest, ANameServerThatIsSilentEndsAtTheDeadline) {
  auto server = std::make_shared<SlowServer>();
  Resolver resolver(server->look_up());
  const auto list = resolver.resolve("some.host", "7741", 0, SOCK_STREAM, in(milliseconds(20)));
  EXPECT_EQ(list.status().code(), Errc::kTimeout);
  EXPECT_THAT(list.status().text(), HasSubstr("some.host: the name server did not answer"));
  // Numbers need none.
  EXPECT_TRUE(resolver.resolve("127.0.0.1", "7741", 0, SOCK_STREAM, in(milliseconds(20))).ok());
  EXPECT_TRUE(resolver.resolve("", "7741", AI_PASSIVE, SOCK_STREAM, in(milliseconds(20))).ok());
  EXPECT_LE(server->asked, 1) << "its thread may begin after the deadline";
  server->answer();
  EXPECT_TRUE(resolver.resolve("some.host", "7741", 0, SOCK_STREAM, in(std::chrono::seconds(60))).ok());
}

TEST(ResolverTest, QuestionsUnderWayAreBounded) {
  auto server = std::make_shared<SlowServer>();
  Resolver resolver(server->look_up(), 2);
  for (int i = 0; i < 5; ++i) {
    const auto list = resolver.resolve("some.host", "1", 0, SOCK_STREAM, in(milliseconds(10)));
    EXPECT_EQ(list.status().code(), Errc::kTimeout);
    if (i >= 2) {
      EXPECT_THAT(list.status().text(), HasSubstr("2 others wait")) << i;
    }
  }
  EXPECT_LE(server->asked, 2);
  // Those that nobody waits for any more make room once they are answered.
  server->answer();
  EXPECT_TRUE(resolver.resolve("some.host", "1", 0, SOCK_STREAM, in(std::chrono::seconds(60))).ok());
}

TEST(ResolverTest, WhatDoesNotExistIsSaid) {
  Resolver resolver([](const char*, const char*, const addrinfo*, addrinfo**) { return EAI_NONAME; });
  const auto list = resolver.resolve("no.such", "7741", 0, SOCK_STREAM, in(std::chrono::seconds(60)));
  EXPECT_EQ(list.status().code(), Errc::kNotFound);
  EXPECT_THAT(list.status().text(), HasSubstr("no.such:7741: cannot find the address"));
}

}  // namespace
}  // namespace butterfly::cluster
