// A training run that the cluster gives a place to, and takes it away.
#include "runtime/nodes/training_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "base/file_text.h"
#include "base/testing/temp_dir.h"
#include "train/testing/tiny_runs.h"
#include "train/train_run.h"

namespace butterfly::runtime {
namespace {

using ::testing::HasSubstr;

cluster::NodeId node_of(int i) { return {"key-" + std::to_string(i), "node-" + std::to_string(i)}; }

cluster::PlanQuestion question_of(const std::vector<uint64_t>& free) {
  cluster::PlanQuestion question;
  question.coordinator = node_of(0);
  for (size_t i = 0; i < free.size(); ++i)
    question.nodes.push_back({.id = node_of(static_cast<int>(i)), .ram_free_bytes = free[i]});
  return question;
}

std::vector<std::string> names_of(const cluster::Placement& placement) {
  std::vector<std::string> names;
  for (const cluster::NodeId& node : placement.nodes()) names.push_back(node.name);
  return names;
}

TEST(TrainingPlacement, IsOnAllThatHaveTheRoomAndCanBeReached) {
  cluster::PlanQuestion question = question_of({100, 100, 99, 100, 100});
  question.broken = {{"key-3", "key-0"}, {"key-1", "key-4"}};
  const auto placement = training_placement(question, 100);
  ASSERT_TRUE(placement.ok()) << placement.status().text();
  EXPECT_EQ(cluster::why_not_whole(*placement), "");
  EXPECT_EQ(names_of(*placement), (std::vector<std::string>{"node-1", "node-0"}));
  for (const cluster::StagePlacement& stage : placement->stages)
    EXPECT_EQ(stage.members[0].memory_bytes, 100u);
  question.broken = {};
  EXPECT_EQ(names_of(*training_placement(question, 100, 2)), (std::vector<std::string>{"node-1", "node-0"}));
  EXPECT_EQ(names_of(*training_placement(question, 100, 1)), (std::vector<std::string>{"node-0"}))
      << "not more than was said";
  const auto none = training_placement(question_of({99, 100}), 100);
  EXPECT_EQ(none.status().code(), Errc::kOutOfMemory);
  EXPECT_THAT(none.status().text(), HasSubstr("training takes 100 B, the coordinator's node has 99 B"));
}

TEST(TrainingPlacement, ANodeThatTakesPartStaysWhileItsMemoryIsNearlyEnough) {
  cluster::PlanQuestion question = question_of({100, 100});
  question.current = *training_placement(question, 100);
  question.nodes[1].ram_free_bytes = 95;
  EXPECT_EQ(training_placement(question, 100)->pieces, 2u);
  question.nodes[1].ram_free_bytes = 80;
  const auto less = training_placement(question, 100);
  EXPECT_EQ(less->pieces, 1u);
  EXPECT_FALSE(less->asked_for) << "what runs is not given up for a figure";
  question.nodes.push_back({.id = node_of(2), .ram_free_bytes = 100});
  question.nodes[1].ram_free_bytes = 100;
  EXPECT_TRUE(training_placement(question, 100)->asked_for) << "one more is worth it";
}

struct TrainingJobTest : ::testing::Test {
  train::TrainConfig config(const std::string& out) {
    train::testing::write_tiny_texts(dir);
    train::TrainConfig c = train::testing::tiny_text_config(dir, out);
    c.max_steps = 12;
    c.export_type = "F32";
    return c;
  }
  TrainingJob::Options options(const train::TrainConfig& c) {
    return {.config = c,
            .self = node_of(0),
            .nodes_up = [] { return std::vector<TrainNode>(); },
            .connect = [](const std::string&, const std::string&) -> Result<std::unique_ptr<cluster::Link>> {
              return {Errc::kPeerLost, "nobody is there"};
            },
            .occupied =
                [this](bool is) {
                  if (is) began.fetch_add(1);
                  resident = is;
                  if (is && began == 1) first.set_value();
                },
            .on_end =
                [this](const Status& status, const std::string& model) {
                  end.set_value({status, model});
                }};
  }
  static void give_place(TrainingJob& job) {
    cluster::NodeId to_blame;
    const auto placement = training_placement(question_of({100}), 1);
    (*job.connect(1, *placement, {""}, to_blame))();
  }

  butterfly::testing::TempDir dir;
  std::atomic<int> began = 0;
  std::atomic<bool> resident = false;
  std::promise<void> first;
  std::promise<std::pair<Status, std::string>> end;
};

TEST_F(TrainingJobTest, RestsWithoutItsPlaceAndEndsWithTheSameWeights) {
  train::TrainRun alone(config("alone"));
  const std::string expected = read_text_file(alone.run([](const auto&) { return true; }).model);
  EXPECT_GT(training_memory(config("none")), 1000u);

  TrainingJob job(options(config("job")));
  EXPECT_FALSE(job.connected());
  job.rest();  // it has nothing yet
  give_place(job);
  EXPECT_TRUE(job.connected());
  first.get_future().wait();
  bool paused = false;
  job.pause([&] { paused = true; });
  EXPECT_TRUE(paused) << "it goes on alone";
  job.resume();
  job.rest();
  EXPECT_FALSE(resident) << "nothing of it is in memory";
  EXPECT_FALSE(job.connected());
  give_place(job);
  const auto [status, model] = end.get_future().get();
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(read_text_file(model), expected);
  EXPECT_FALSE(resident);
}

TEST_F(TrainingJobTest, WhoAskedForItMayEndIt) {
  TrainingJob::Options asked = options(config("cancelled"));
  uint64_t seen = 0;
  asked.on_step = [&](train::TrainRun& run, const train::RunProgress& progress) {
    EXPECT_EQ(run.step(), progress.step);
    seen = progress.step;
    return progress.step < 3;
  };
  TrainingJob job(std::move(asked));
  give_place(job);
  const auto [status, model] = end.get_future().get();
  EXPECT_EQ(status.code(), Errc::kCancelled);
  EXPECT_EQ(seen, 3u);
  EXPECT_EQ(model, "");
}

TEST_F(TrainingJobTest, ARunThatWaitsForItsPlaceCanBeCancelled) {
  TrainingJob job(options(config("waits")));
  job.cancel();
  EXPECT_EQ(end.get_future().get().first.code(), Errc::kCancelled);
  EXPECT_EQ(began, 0);
}

TEST_F(TrainingJobTest, WhatCannotBeTrainedEndsWithItsReason) {
  train::TrainConfig c = config("out");
  c.datasets = {(dir / "missing.txt").string()};
  TrainingJob job(options(c));
  give_place(job);
  const auto [status, model] = end.get_future().get();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.text(), HasSubstr("missing.txt"));
}

}  // namespace
}  // namespace butterfly::runtime
