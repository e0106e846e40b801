// The shell with real threads and links in memory, over nodes whose stages only say yes.
#include "runtime/nodes/coordinator_shell.h"

#include <gtest/gtest.h>

#include <future>

#include "cluster/testing/member_samples.h"
#include "cluster/transport/inproc.h"
#include "runtime/engine/testing/fake_chain.h"
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

struct CoordinatorShellTest : ::testing::Test {
  void make(cluster::PlanFunction plan) {
    CoordinatorShell::Options options;
    options.config.self = node_id(0);
    options.config.address = "10.0.0.0:1";
    options.config.numerics_id = 1;
    options.config.measure_links = false;
    options.config.nodes_wanted = 2;
    options.config.nodes_wait = kLong;
    options.config.settle = std::chrono::milliseconds(1);
    CoordinatorShell::JobOptions& job = options.jobs[1];
    job.model = {"m", "model", ""};
    job.plan = std::move(plan);
    job.make_chain = [](cluster::Epoch epoch, const cluster::Placement&, const std::vector<std::string>&,
                        cluster::NodeId&) -> Result<PlacedChain> {
      return PlacedChain{epoch, std::make_unique<testing::FakeChain>(testing::FakeChainOptions{})};
    };
    job.steps = &slot;
    shell.emplace(std::move(options));
    shell->start();
  }
  std::unique_ptr<NodeShell> node(int number) {
    NodeShell::Options options;
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
  // Whether so many stages are served, soon.
  bool serves(size_t stages) {
    const Deadline deadline(SystemClock::instance(), kLong);
    while (!deadline.expired()) {
      const cluster::ClusterStatus status = shell->status();
      size_t count = 0;
      for (const cluster::NodeStatus& row : status.nodes) count += row.has_stage();
      if (status.serving() && count == stages) return true;
      SystemClock::instance().sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  const std::shared_ptr<NodeMemory> memory = std::make_shared<NodeMemory>(uint64_t{1} << 30);
  EngineSlot slot{testing::FakeChain({}).info()};
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

}  // namespace
}  // namespace butterfly::runtime
