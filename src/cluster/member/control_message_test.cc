// Messages come back as they were sent, and nothing else is taken for one.
#include "cluster/member/control_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "cluster/testing/member_samples.h"

namespace butterfly::cluster {
namespace {

using testing::assignment;
using ::testing::HasSubstr;
using testing::join_message;
using testing::node_id;

std::vector<ToCoordinator> to_coordinator() {
  Beat beat{.ram_free_bytes = 5, .machine = {0.5, 1 << 20, 61.5, 3}};
  beat.jobs = {{.job = 2, .epoch = 5, .phase = WorkerPhase::kRunning, .progress = 77, .pending = 2},
               {.job = 3, .epoch = 6, .wire_us = 9}};
  LinkReport report{.peer = node_id(2)};
  report.figures = {1e-4, 1e9, {{1024, 2e-4}, {65536, 3e-4}}};
  return {join_message(1),
          beat,
          Prepared{3, Errc::kOk, ""},
          Ready{4, Errc::kOutOfMemory, "needs 5 GiB, 4 are free", 0, 12},
          Started{5, Errc::kOk, "", 4},
          Trouble{6, node_id(3), "reset"},
          report,
          Leave{"going"},
          Retire{"a reboot"}};
}

std::vector<ToWorker> to_worker() {
  return {Welcome{9, std::chrono::milliseconds(250), std::chrono::seconds(3), {"key-c"}},
          Refuse{true, "no"},
          Alive{9},
          Prepare{9, assignment(11)},
          Assign{9, assignment(12)},
          Go{9, 12},
          Release{9, 13},
          Measure{9, node_id(4), "10.0.0.4:1"},
          Removed{9, {"key-a", "key-b"}},
          Leaders{9, "signed", {{"key-a", "10.0.0.1:7"}, {"key-b", ""}}},
          Abandon{9, 14, 3},
          Notice{9, "nobody reaches you"},
          Retired{9, "the model does not fit on the others"}};
}

// Equal bytes are equal messages, for every field is in them.
TEST(ControlMessage, ComesBackAsItWas) {
  for (const ToCoordinator& message : to_coordinator()) {
    const auto bytes = encode(message);
    const Result<ToCoordinator> back = decode_to_coordinator(bytes);
    ASSERT_TRUE(back.ok()) << back.status().text();
    EXPECT_EQ(back->index(), message.index());
    EXPECT_EQ(encode(*back), bytes) << name_of(message);
  }
  for (const ToWorker& message : to_worker()) {
    const auto bytes = encode(message);
    const Result<ToWorker> back = decode_to_worker(bytes);
    ASSERT_TRUE(back.ok()) << back.status().text();
    EXPECT_EQ(back->index(), message.index());
    EXPECT_EQ(encode(*back), bytes) << name_of(message);
  }
  const auto back = decode_to_worker(encode(ToWorker(Assign{9, assignment(12)})));
  const Assignment& work = std::get<Assign>(*back).work;
  EXPECT_EQ(work.epoch, 12u);
  EXPECT_EQ(work.model, assignment(12).model);
  EXPECT_EQ(work.end, 7u);
  EXPECT_EQ(work.members, assignment(12).members);
  EXPECT_EQ(work.next.name, "node-3");
  EXPECT_EQ(work.next_address, "10.0.0.3:4711");
  EXPECT_EQ(work.sources, assignment(12).sources);
  EXPECT_EQ(work.holders, assignment(12).holders);
}

TEST(ControlMessage, HeadsCarryKindAndEpoch) {
  EXPECT_EQ(head_of(ToCoordinator(Beat{})).kind, MessageKind::kHealth);
  EXPECT_EQ(head_of(ToWorker(Alive{1})).kind, MessageKind::kHealth);
  EXPECT_EQ(head_of(ToWorker(Assign{9, assignment(12)})).epoch, 12u);
  EXPECT_EQ(head_of(ToWorker(Assign{9, assignment(12)})).kind, MessageKind::kControl);
  EXPECT_EQ(head_of(ToCoordinator(Leave{})).epoch, 0u);
}

TEST(ControlMessage, ShortLongAndForeignBytesAreRefused) {
  for (const ToCoordinator& message : to_coordinator()) {
    auto bytes = encode(message);
    for (size_t size = 0; size < bytes.size(); ++size)
      EXPECT_FALSE(decode_to_coordinator(std::span(bytes).first(size)).ok()) << name_of(message);
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode_to_coordinator(bytes).ok()) << name_of(message);
  }
  for (const ToWorker& message : to_worker()) {
    const auto bytes = encode(message);
    EXPECT_EQ(decode_to_coordinator(bytes).status().code(), Errc::kCorrupt);
    for (size_t size = 0; size < bytes.size(); ++size)
      EXPECT_FALSE(decode_to_worker(std::span(bytes).first(size)).ok()) << name_of(message);
  }
  EXPECT_FALSE(decode_to_worker(std::vector<std::byte>(kControlBytesMax + 1)).ok());
}

TEST(ControlMessage, RulesBeyondSingleFields) {
  Assignment work = assignment(1);
  work.end = work.begin;
  EXPECT_THAT(decode_to_worker(encode(ToWorker(Assign{1, work}))).status().text(),
              HasSubstr("pieces 2 to 2"));
  work = assignment(1);
  work.stage = 3;
  EXPECT_FALSE(decode_to_worker(encode(ToWorker(Prepare{1, work}))).ok());
  const auto refused = [](const Assignment& one) {
    return decode_to_worker(encode(ToWorker(Assign{1, one}))).status().text();
  };
  work = assignment(1);
  work.holders[0].end = work.end + 1;
  EXPECT_THAT(refused(work), HasSubstr("had pieces 4 to 8"));
  work = assignment(1);
  work.members.clear();
  EXPECT_THAT(refused(work), HasSubstr("member 0 of 0"));
  work = assignment(1);
  work.member = 1;
  EXPECT_THAT(refused(work), HasSubstr("member 1 of 1"));
  work = assignment(1);
  work.members[0].share.of(ShareKind::kColumns) = {0, 4, 8};
  EXPECT_THAT(refused(work), HasSubstr("columns 4: nobody"));
  work = assignment(1);
  work.members.push_back(work.members[0]);
  EXPECT_THAT(refused(work), HasSubstr("is two members"));
  work = assignment(1);
  work.job = 0;
  EXPECT_THAT(refused(work), HasSubstr("job 0"));
  EXPECT_FALSE(decode_to_worker(encode(ToWorker(Go{1, 2, kJobsMax + 1}))).ok());
  EXPECT_FALSE(decode_to_coordinator(encode(ToCoordinator(Trouble{1, node_id(2), "", 0}))).ok());
  Beat twice;
  twice.jobs = {{.job = 2}, {.job = 2}};
  EXPECT_THAT(decode_to_coordinator(encode(ToCoordinator(twice))).status().text(), HasSubstr("job 2 twice"));
  Join join = join_message(1);
  join.capabilities.memory.all = -1;
  EXPECT_FALSE(decode_to_coordinator(encode(ToCoordinator(join))).ok());
  join.capabilities.memory.all = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(decode_to_coordinator(encode(ToCoordinator(join))).ok());
  LinkReport report{.peer = node_id(2)};
  report.figures.rtt_s = 1e6;
  EXPECT_FALSE(decode_to_coordinator(encode(ToCoordinator(report))).ok());
}

// Terminals show these texts.
TEST(ControlMessage, ControlCharactersDoNotGetThrough) {
  const auto back = decode_to_coordinator(encode(ToCoordinator(Leave{"a\x1b[2Jb\n"})));
  EXPECT_EQ(std::get<Leave>(*back).text, "a?[2Jb?");
}

TEST(ControlMessage, RandomDamageNeverDoesMoreThanFail) {
  std::vector<std::vector<std::byte>> bodies;
  for (const ToCoordinator& message : to_coordinator()) bodies.push_back(encode(message));
  for (const ToWorker& message : to_worker()) bodies.push_back(encode(message));
  size_t good = 0;
  for (uint64_t round = 0; round < 20'000; ++round) {
    std::vector<std::byte> body = bodies[round % bodies.size()];
    for (uint64_t i = 0; i <= round % 3; ++i) {
      const uint64_t draw = random_u64(1, round, i);
      body[draw % body.size()] = static_cast<std::byte>(draw >> 32);
    }
    good += decode_to_coordinator(body).ok() + decode_to_worker(body).ok();
  }
  EXPECT_GT(good, 0u);
  EXPECT_LT(good, 20'000u);
}

}  // namespace
}  // namespace butterfly::cluster
