// Messages come back as they were, and what breaks their rules is refused in words.
#include "cluster/training/train_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/rng.h"

namespace butterfly::cluster {
namespace {

using ::testing::HasSubstr;

TrainPlan plan() {
  return {.epoch = 7,
          .step = 12,
          .slots = 4,
          .members = {{0, {"key0", "node-1"}, "10.0.0.1:1"}, {3, {"key3", "node-2"}, ""}},
          .shards = {{0, 0, 2}, {3, 2, 5}},
          .held = {{0, 0, 1}, {3, 1, 4}},
          .weights_come = true,
          .weights_from = 2,
          .weights_to = {4, 5}};
}
const DealtStep kDeal{
    .epoch = 7, .step = 12, .targets = 640, .deal = {{0, {0, 4}}, {3, {4, 4}}, {5, {4, 7}}}};

TEST(TrainMessage, ComesBackAsItWas) {
  const std::vector<ToTrainMember> to_member = {StartTraining{.run = 1,
                                                              .you = 2,
                                                              .config = "a: b\nc: d\n",
                                                              .steps = 100,
                                                              .model_bytes = 5,
                                                              .items = 8,
                                                              .ids = 16,
                                                              .values = 0,
                                                              .targets = 16},
                                                NewTrainPlan{plan()},
                                                kDeal,
                                                CommitDealtStep{7, 12, 0.25, 1.5},
                                                GatherTrainState{7, 12},
                                                EndTraining{"over"},
                                                CutDealtStep{7, 12}};
  for (const ToTrainMember& message : to_member) {
    const auto bytes = encode(message);
    const auto again = decode_to_train_member(bytes);
    ASSERT_TRUE(again) << again.status().text();
    EXPECT_EQ(again->index(), message.index());
    EXPECT_EQ(encode(*again), bytes);
  }
  const std::vector<ToTrainLead> to_lead = {
      TrainingAgreed{"abc", "10.0.0.1:4"},
      TrainingReady{7},
      LeavesDone{.epoch = 7,
                 .step = 12,
                 .leaves = {{1.5, 3}, {std::numeric_limits<double>::infinity(), 0}},
                 .times = {.compute = 0.5, .serialise = 0.25},
                 .gradient_bytes = 1000,
                 .gradient_bytes_sent = 260,
                 .packing_gradients = "off",
                 .packing_weights = "",
                 .spans = {{0, 0, 0.5}, {3, 0.5, 0.75}}},
      StepPrepared{7, 12, {1.0f, 2.0f}},
      TrainStateReport{7, 12, "00ff"},
      TrainingFailed{"no"}};
  for (const ToTrainLead& message : to_lead) {
    const auto bytes = encode(message);
    const auto again = decode_to_train_lead(bytes);
    ASSERT_TRUE(again) << again.status().text();
    EXPECT_EQ(encode(*again), bytes);
  }
  const ValuesHead head{.what = TrainValues::kGradients,
                        .node = {3, 1},
                        .begin = 4,
                        .end = 9,
                        .mode = 2,
                        .packing = Packing::kZstd,
                        .planes = 4};
  const auto again = ValuesHead::decode(head.encode());
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, head);
}

TEST(TrainMessage, OnlyValuesOfAStepArePacked) {
  const auto decodes = [](const ValuesHead& head) { return ValuesHead::decode(head.encode()).ok(); };
  const ValuesHead weights{.what = TrainValues::kWeights, .packing = Packing::kLz4, .planes = 4};
  EXPECT_TRUE(decodes(weights));
  for (const uint8_t planes : {0, 9}) {
    ValuesHead wrong = weights;
    wrong.planes = planes;
    EXPECT_FALSE(decodes(wrong));
  }
  ValuesHead wrong = weights;
  wrong.all = true;
  EXPECT_FALSE(decodes(wrong));
  wrong = weights;
  wrong.what = TrainValues::kMoments;
  EXPECT_FALSE(decodes(wrong));
  wrong = weights;
  wrong.packing = Packing::kNone;
  EXPECT_FALSE(decodes(wrong));
}

std::string refusal(const ToTrainMember& message) {
  const auto decoded = decode_to_train_member(encode(message));
  return decoded ? "" : decoded.status().text();
}

TEST(TrainMessage, RulesAreChecked) {
  TrainPlan wrong = plan();
  wrong.shards[1].begin = 1;
  EXPECT_THAT(refusal(NewTrainPlan{wrong}), HasSubstr("blocks 1 to 5 behind block 2"));
  wrong = plan();
  wrong.shards[1].owner = 4;
  EXPECT_THAT(refusal(NewTrainPlan{wrong}), HasSubstr("owner 4 is no member"));
  wrong = plan();
  wrong.members = {plan().members[1], plan().members[0]};
  EXPECT_THAT(refusal(NewTrainPlan{wrong}), HasSubstr("out of order"));
  wrong = plan();
  wrong.held[1].end = 5;
  EXPECT_THAT(refusal(NewTrainPlan{wrong}), HasSubstr("slots 1 to 5 of 4 behind slot 1"));
  wrong = plan();
  wrong.held.pop_back();
  EXPECT_THAT(refusal(NewTrainPlan{wrong}), HasSubstr("4 slots, of which 1 are held"));
  DealtStep deal = kDeal;
  deal.deal[1].leaves = {3, 4};
  EXPECT_THAT(refusal(deal), HasSubstr("leaves 3 to 4 behind leaf 4"));
  deal = kDeal;
  deal.deal[2].leaves.end = kTrainLeavesMax + 1;
  EXPECT_THAT(refusal(deal), HasSubstr("at most 65536"));
  deal = kDeal;
  deal.targets = 0;
  EXPECT_THAT(refusal(deal), HasSubstr("without targets"));
}

// Bytes that are cut off, too many or changed: refused or another message, never more than the rules allow.
TEST(TrainMessage, AnyBytesAreReadSafely) {
  const auto whole = encode(ToTrainMember{NewTrainPlan{plan()}});
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(decode_to_train_member(std::span(whole).first(size)));
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    auto bytes = seed % 2 == 0 ? whole : encode(ToTrainMember{kDeal});
    for (size_t i = 0; i <= seed % 3; ++i)
      bytes[random_u64(seed, i, 0) % bytes.size()] = static_cast<std::byte>(random_u64(seed, i, 1));
    if (const auto read = decode_to_train_member(bytes)) {
      EXPECT_TRUE(decode_to_train_member(encode(*read)));
    }
    (void)decode_to_train_lead(bytes);
    (void)decode_peer_greeting(bytes);
    (void)ValuesHead::decode(std::span(bytes).first(ValuesHead::kBytes));
  }
}

}  // namespace
}  // namespace butterfly::cluster
