#include "runtime/nodes/training_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace butterfly::runtime {
namespace {

using ::testing::HasSubstr;

TEST(TrainingBackend, SettingsAreReadAsWritten) {
  EXPECT_EQ(*training_bytes(training_settings(123)), 123u);
  EXPECT_EQ(*training_bytes(training_settings(UINT64_MAX)), UINT64_MAX);
  for (const char* wrong :
       {"", "training", "training, bytes ", "training, bytes x", "training, bytes 12 ", "training, bytes 0",
        "training, bytes -1", "training, bytes 99999999999999999999", "context 4096"})
    EXPECT_EQ(training_bytes(wrong).status().code(), Errc::kCorrupt) << wrong;
}

struct TrainingPlace : ::testing::Test {
  static cluster::Assignment work(uint64_t bytes, cluster::JobId job = cluster::kFirstTraining) {
    cluster::Assignment work;
    work.job = job;
    work.epoch = 1;
    work.model.settings = training_settings(bytes);
    return work;
  }
  uint64_t free = 100;
  size_t begun = 0, ended = 0;
  std::atomic<bool> cancelled = false;
  std::shared_ptr<NodeMemory> memory = std::make_shared<NodeMemory>(0, [this] { return free; });
  TrainingBackend backend{{.memory = memory, .begin = [this] { ++begun; }, .end = [this] { ++ended; }}};
};

TEST_F(TrainingPlace, IsCountedOnceWhetherItIsThereYetOrNot) {
  ASSERT_EQ(*backend.load(work(60), cancelled), 60u);
  ASSERT_TRUE(backend.start(work(60), {}).ok());
  EXPECT_EQ(begun, 1u);
  EXPECT_EQ(memory->usable_bytes(1), 40u) << "the rest";
  EXPECT_EQ(memory->usable_bytes(), 100u);
  backend.occupied(true);
  free = 40;
  EXPECT_EQ(memory->usable_bytes(1), 40u);
  EXPECT_EQ(memory->usable_bytes(), 100u) << "a model could have all of it";
  ASSERT_TRUE(backend.load(work(60), cancelled).ok()) << "the next plan of the same run";
  backend.occupied(false);
  free = 100;
  backend.free_weights();
  EXPECT_EQ(ended, 1u);
  EXPECT_EQ(memory->usable_bytes(1), 100u);
}

TEST_F(TrainingPlace, IsRefusedInWordsWhereThereIsNone) {
  memory->claim(1, 70);
  const Status status = backend.load(work(60), cancelled).status();
  EXPECT_EQ(status.code(), Errc::kOutOfMemory);
  EXPECT_THAT(status.text(), HasSubstr("training takes 60 B, 30 B are free"));
  EXPECT_EQ(memory->usable_bytes(2), 30u) << "and takes nothing";
  ASSERT_TRUE(backend.load(work(30), cancelled).ok());
  EXPECT_EQ(backend.load(work(30, cluster::kFirstTraining + 1), cancelled).status().code(), Errc::kQueueFull);
  EXPECT_EQ(backend.prepare(cluster::Assignment{}, cancelled).status.code(), Errc::kCorrupt);
}

}  // namespace
}  // namespace butterfly::runtime
