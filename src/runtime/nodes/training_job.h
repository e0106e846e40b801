// A training run as a job of a running cluster, after what is served: it works where the cluster has a place
// for it, and is a checkpoint while there is none.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/nodes/job_steps.h"
#include "runtime/training/train_node.h"
#include "train/task/config.h"

namespace butterfly::train {
class TrainRun;
struct RunProgress;
}  // namespace butterfly::train

namespace butterfly::runtime {

// Memory that a node of this run needs at most, from a dry run. Throws Error for settings that name no run.
uint64_t training_memory(const train::TrainConfig& config);

// The coordinator's node, which leads, and every other that has the room and that it reaches. kOutOfMemory,
// in words, where the leader has none. A node that has a part keeps it while its memory is nearly enough.
// `nodes_max`: on so many at most, the first of them; 0: on all.
Result<cluster::Placement> training_placement(const cluster::PlanQuestion& question, uint64_t bytes,
                                              size_t nodes_max = 0);

// What somebody else wants to know of a run, and may decide.
struct TrainingHooks {
  size_t nodes_max = 0;  // of the cluster's nodes, the coordinator's included; 0: all
  // After each step, on the run's thread; false ends the run for good, after a checkpoint. May be null.
  std::function<bool(train::TrainRun& run, const train::RunProgress& progress)> on_step = {};
  // Once, on the run's thread: kCancelled after on_step() said so. May be null.
  std::function<void(const Status& status, const std::string& model)> on_end = {};
};

// One thread leads and computes, with the lowest priority the system has: steps of what is served go before
// it. Nodes may change at any step, so a pause of the job is none of the run: it goes on with who is left.
// Only rest() ends it. All calls from any thread.
class TrainingJob final : public JobSteps {
 public:
  struct Options {
    train::TrainConfig config = {};
    cluster::NodeId self = {};
    std::function<std::vector<TrainNode>()> nodes_up = {};  // besides this one
    ConnectPeer connect = {};
    cluster::Epoch first_epoch = 1;
    std::string base_id = {};                    // TrainingLeader::Options
    std::function<void(bool is)> occupied = {};  // its arrays are in memory
    std::function<bool(train::TrainRun& run, const train::RunProgress& progress)> on_step =
        {};  // may be null
    // Once, on the run's thread: it is finished, `model` is the file; or it cannot go on.
    std::function<void(const Status& status, const std::string& model)> on_end = {};
  };
  explicit TrainingJob(Options options);
  ~TrainingJob() override;  // a checkpoint is written first

  Result<Use> connect(cluster::Epoch epoch, const cluster::Placement& placement,
                      const std::vector<std::string>& addresses, cluster::NodeId& to_blame) override;
  void pause(std::function<void()> paused) override;
  void resume() override;
  void remove() override;
  void give_up(const Status&) override {}
  void expect() override {}
  bool connected() const override;
  void on_lost(Lost) override {}  // nodes that are lost are the leader's business

  // Returns when a checkpoint is written and nothing of the run is in memory; the next connection goes on
  // from there. Takes as long as a step.
  void rest();

  // It ends for good, with kCancelled: after its step and a checkpoint, or at once where it waits. Returns
  // before.
  void cancel();

 private:
  void run();
  bool train_for_a_while(Status& status, std::string& model);
  std::vector<TrainNode> nodes() const;

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<cluster::NodeId> placed_;  // besides this node
  bool in_use_ = false;                  // of the nodes placed_, all may be used
  bool wanted_ = false;                  // on this node
  bool works_ = false, ended_ = false, stopping_ = false, cancelled_ = false;
  uint64_t lives_ = 0;
  std::thread thread_;
};

}  // namespace butterfly::runtime
