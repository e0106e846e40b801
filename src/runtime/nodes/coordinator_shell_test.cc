// The shell with real threads and links in memory, over nodes whose stages only say yes.
#include "runtime/nodes/coordinator_shell.h"

#include <gtest/gtest.h>

#include <future>

#include "base/testing/temp_dir.h"
#include "cluster/identity/roster.h"
#include "cluster/testing/member_samples.h"
#include "cluster/transport/inproc.h"
#include "runtime/engine/testing/fake_chain.h"
#include "runtime/nodes/engine_slot.h"
#include "runtime/nodes/node_shell.h"

namespace butterfly::runtime {
namespace {

using cluster::testing::node_id;

constexpr Duration kLong = std::chrono::seconds(60);

class YesStage final : public StageBackend {
 public:
  Preparation prepare(const cluster::Assignment&, const std::atomic<bool>&) override { return {}; }
  Result<uint64_t> load(const cluster::Assignment&, const std::atomic<bool>&) override { return uint64_t{1}; }
  Status start(const cluster::Assignment&, Lost) override { return {}; }
  void stop(cluster::Epoch) override {}
  void free_weights() override {}
  cluster::WorkerProgress progress() const override { return {}; }
};

// Every node has one piece.
Result<cluster::Placement> one_each(const cluster::PlanQuestion& question) {
  cluster::Placement placement;
  for (const cluster::PlanNode& node : question.nodes) {
    cluster::StagePlacement stage;
    stage.members = {{.node = node.id}};
    stage.begin = placement.pieces;
    stage.end = ++placement.pieces;
    placement.stages.push_back(stage);
  }
  return placement;
}

Result<PlacedChain> fake_chain(cluster::Epoch epoch, const cluster::Placement&,
                               const std::vector<std::string>&, cluster::NodeId&) {
  return PlacedChain{epoch, std::make_unique<testing::FakeChain>(testing::FakeChainOptions{})};
}

struct CoordinatorShellTest : ::testing::Test {
  void make(cluster::PlanFunction plan, CoordinatorShell::Options options = {}) {
    options.config.self = node_id(0);
    options.config.address = "10.0.0.0:1";
    options.config.numerics_id = 1;
    options.config.measure_links = false;
    options.config.nodes_wanted = 2;
    options.config.nodes_wait = kLong;
    options.config.settle = std::chrono::milliseconds(1);
    shell.emplace(std::move(options));
    shell->add_job(1, {.model = {"m", "model", ""}, .plan = std::move(plan), .steps = &slot});
    shell->start();
  }
  std::unique_ptr<NodeShell> node(int number, NodeShell::Options options = {}) {
    options.worker.instance = static_cast<uint64_t>(number) + 1;
    options.worker.join = cluster::testing::join_message(number);
    options.make_stage = [](cluster::JobId) { return std::make_shared<YesStage>(); };
    options.memory = memory;
    options.connect = [this, number](const std::string&, Duration) -> Result<std::unique_ptr<cluster::Link>> {
      auto [here, there] = cluster::inproc_pair(node_id(0), node_id(number));
      shell->accept(std::move(here));
      return std::move(there);
    };
    auto made = std::make_unique<NodeShell>(std::move(options));
    made->start();
    return made;
  }
  bool soon(const std::function<bool(const cluster::ClusterStatus&)>& holds) {
    const Deadline deadline(SystemClock::instance(), kLong);
    while (!deadline.expired()) {
      if (holds(shell->status())) return true;
      SystemClock::instance().sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  // Whether so many stages of every job are served, soon.
  bool serves(size_t stages) {
    return soon([&](const cluster::ClusterStatus& status) {
      return status.serving() && std::ranges::all_of(status.jobs, [&](const cluster::JobStatus& job) {
               return job.stages.size() == stages;
             });
    });
  }

  const std::shared_ptr<NodeMemory> memory = std::make_shared<NodeMemory>(uint64_t{1} << 30);
  EngineSlot slot{testing::FakeChain({}).info(), fake_chain},
      other{testing::FakeChain({}).info(), fake_chain};
  std::optional<CoordinatorShell> shell;
};

// What the loss of a node would mean is worked out in quiet moments; when one is lost, nobody waits for it.
TEST_F(CoordinatorShellTest, RecoveryDoesNotWaitForAForecast) {
  std::promise<void> forecasting, go_on;
  std::shared_future<void> may_end = go_on.get_future().share();
  std::atomic<bool> begun{false};
  make([&](const cluster::PlanQuestion& question) {
    if (question.epoch == 0) {  // nobody is about to load it
      if (!begun.exchange(true)) forecasting.set_value();
      may_end.wait();
    }
    return one_each(question);
  });
  const auto first = node(0);
  auto second = node(1);
  ASSERT_TRUE(serves(2));
  ASSERT_EQ(forecasting.get_future().wait_for(kLong), std::future_status::ready);
  second->stop("it is lost");
  EXPECT_TRUE(serves(1)) << "while the forecast still stands";
  go_on.set_value();
  first->stop("the test is over");
  shell->stop();
}

// Something that stands still until it is told to go on: a disk that hangs.
struct Hanging {
  void operator()() {
    if (!begun.exchange(true)) began.set_value();
    may_end.wait();
  }
  bool has_begun() { return began.get_future().wait_for(kLong) == std::future_status::ready; }
  std::promise<void> began, go_on;
  std::shared_future<void> may_end = go_on.get_future().share();
  std::atomic<bool> begun{false};
};

// The list of nodes is read, and what follows from it written, beside what decides.
TEST_F(CoordinatorShellTest, NobodyWaitsForTheCoordinatorsDisk) {
  Hanging disk;
  const butterfly::testing::TempDir folder;
  const auto state = cluster::StateFolder::make(folder.path());
  CoordinatorShell::Options options;
  options.roster = std::make_shared<cluster::Roster>(state);
  options.cut_off = [&](const std::string&) { disk(); };
  make(one_each, std::move(options));
  const auto first = node(0);
  auto second = node(1);
  ASSERT_TRUE(serves(2));
  // Another program takes a node out.
  ASSERT_TRUE(cluster::Roster(state).add_removed({std::string(64, 'a'), "gone"}).ok());
  ASSERT_TRUE(disk.has_begun());
  second->stop("it is lost");
  EXPECT_TRUE(serves(1)) << "while the disk still hangs";
  disk.go_on.set_value();
  first->stop("the test is over");
  shell->stop();
}

// The same at a node that hears of a removal: it works on.
TEST_F(CoordinatorShellTest, NobodyWaitsForANodesDisk) {
  Hanging disk;
  make(one_each);
  NodeShell::Options options;
  options.cut_off = [&](const std::vector<std::string>&) { disk(); };
  const auto first = node(0), second = node(1, std::move(options)), third = node(2);
  ASSERT_TRUE(serves(3));
  ASSERT_TRUE(shell->remove_node("node-2").ok());
  ASSERT_TRUE(disk.has_begun());
  EXPECT_TRUE(serves(2)) << "on the two that are left, one of which writes the key down";
  disk.go_on.set_value();
  for (const auto& node : {first.get(), second.get(), third.get()}) node->stop("the test is over");
  shell->stop();
}

// A second one begins while the first is served, ends, and its number is given to a third.
TEST_F(CoordinatorShellTest, JobsComeAndGoWhileOthersAreServed) {
  make(one_each);
  const auto first = node(0), second = node(1);
  ASSERT_TRUE(serves(2));
  const cluster::Epoch epoch = shell->status().jobs[0].epoch;
  for (const char* name : {"two", "three"}) {
    shell->add_job(2, {.model = {name, name, ""}, .plan = one_each, .steps = &other});
    ASSERT_TRUE(soon([&](const auto& s) { return s.serving() && s.jobs.size() == 2; }));
    EXPECT_TRUE(other.connected());
    EXPECT_EQ(shell->status().jobs[1].model, name);
    EXPECT_TRUE(shell->end_job(2));
    EXPECT_FALSE(other.connected());
    EXPECT_EQ(shell->status().jobs.size(), 1u);
    EXPECT_TRUE(slot.connected());
  }
  EXPECT_EQ(shell->status().jobs[0].epoch, epoch) << "nothing happened to the first";
  EXPECT_FALSE(shell->end_job(2));
  first->stop("the test is over");
  second->stop("the test is over");
  shell->stop();
}

// What a job's options borrow is not used any more once it has ended, not even by a plan that takes long.
TEST_F(CoordinatorShellTest, AJobThatEndsIsWaitedFor) {
  make(one_each);
  const auto first = node(0), second = node(1);
  ASSERT_TRUE(serves(2));
  std::atomic<int> planning{0};
  std::promise<void> begun, go_on;
  std::shared_future<void> may_end = go_on.get_future().share();
  shell->add_job(2, {.model = {"two", "two", ""},
                     .plan =
                         [&](const cluster::PlanQuestion& question) {
                           ++planning;
                           begun.set_value();
                           may_end.wait();
                           --planning;
                           return one_each(question);
                         },
                     .steps = &other});
  ASSERT_EQ(begun.get_future().wait_for(kLong), std::future_status::ready);
  auto ended = std::async(std::launch::async, [&] {
    shell->end_job(2);
    return planning.load();
  });
  ASSERT_TRUE(soon([](const auto& s) { return s.jobs.size() == 1; })) << "the others hear of it at once";
  go_on.set_value();
  EXPECT_EQ(ended.get(), 0);
  first->stop("the test is over");
  second->stop("the test is over");
  shell->stop();
}

}  // namespace
}  // namespace butterfly::runtime
