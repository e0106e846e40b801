// Clusters are found on loopback, and packets of any other form lead nowhere.
#include "cluster/node/discovery.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/rng.h"

namespace butterfly::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr DiscoveryNonce kNonce{std::byte{1}, std::byte{2}, std::byte{3}};

TEST(Discovery, PacketsComeBackAsTheyWere) {
  EXPECT_EQ(encode_question(kNonce).size(), kDiscoveryBytes);
  EXPECT_EQ(decode_question(encode_question(kNonce)), kNonce);
  const auto packet = encode_answer(kNonce, {"home", "box", 7741});
  const auto answer = decode_answer(packet, kNonce);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->cluster, "home");
  EXPECT_EQ(answer->node, "box");
  EXPECT_EQ(answer->port, 7741);
  EXPECT_LE(encode_answer(kNonce, {std::string(500, 'x'), std::string(500, 'y'), 1}).size(), kDiscoveryBytes);
  EXPECT_EQ(decode_answer(encode_answer(kNonce, {"a\x1b[2J", "b", 1}), kNonce)->cluster, "a?[2J");
}

TEST(Discovery, OtherPacketsLeadNowhere) {
  const auto question = encode_question(kNonce), answer = encode_answer(kNonce, {"home", "box", 7741});
  EXPECT_FALSE(decode_question(answer).has_value());
  EXPECT_FALSE(decode_question(std::span(question).first(40)).has_value());  // shorter than an answer may be
  EXPECT_FALSE(decode_answer(answer, DiscoveryNonce{}).has_value());         // nobody asked for this
  EXPECT_FALSE(decode_answer(encode_answer(kNonce, {"a", "b", 0}), kNonce).has_value());
  for (size_t size = 0; size < answer.size(); ++size)
    EXPECT_FALSE(decode_answer(std::span(answer).first(size), kNonce).has_value());
  for (uint64_t i = 0; i < 5000; ++i) {
    std::vector<std::byte> packet = i % 2 == 0 ? question : answer;
    const uint64_t draw = random_u64(3, 1, i);
    packet[draw % packet.size()] = static_cast<std::byte>(draw >> 32);
    decode_question(packet);
    decode_answer(packet, kNonce);
  }
}

TEST(Discovery, FindsWhoAnswers) {
  DiscoveryAnswerer answerer({"home", "box", 7741}, 0, "127.0.0.1");
  std::atomic<bool> stop = false;
  std::thread thread([&] {
    while (!stop) answerer.answer_one(milliseconds(20));
  });
  Result<std::vector<FoundCluster>> found = std::vector<FoundCluster>{};
  for (int i = 0; i < 20 && found.ok() && found->empty(); ++i)
    found = discover(milliseconds(100), 1, {"127.0.0.1:" + std::to_string(answerer.port())});
  stop = true;
  thread.join();
  ASSERT_TRUE(found.ok()) << found.status().text();
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ((*found)[0].address, "127.0.0.1:7741");
  EXPECT_EQ((*found)[0].cluster, "home");
  EXPECT_FALSE(discover(milliseconds(1), 1, {"nonsense"}).ok());
}

TEST(Addresses, GetTheirPort) {
  EXPECT_EQ(with_port("10.0.0.5"), "10.0.0.5:7741");
  EXPECT_EQ(with_port("10.0.0.5:80"), "10.0.0.5:80");
  EXPECT_EQ(with_port("box", 9), "box:9");
  EXPECT_EQ(with_port("::1"), "[::1]:7741");
  EXPECT_EQ(with_port("[::1]"), "[::1]:7741");
  EXPECT_EQ(with_port("[::1]:80"), "[::1]:80");
  for (const std::string& address : own_addresses()) EXPECT_NE(address.substr(0, 4), "127.");
}

}  // namespace
}  // namespace butterfly::cluster
