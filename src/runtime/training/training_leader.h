// The leader of a training job: carries out the steps of a run on this process and on nodes of the cluster.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cluster/training/broadcast_tree.h"
#include "cluster/training/train_lead.h"
#include "runtime/training/leader_links.h"
#include "runtime/training/member_runner.h"
#include "runtime/training/pipeline_runner.h"
#include "runtime/training/step_tracer.h"
#include "runtime/training/train_snapshot.h"
#include "train/train_run.h"

namespace butterfly::runtime {

// What one member did, as far as is known.
struct TrainMemberReport {
  cluster::TrainMemberId id = 0;
  std::string name = {};
  uint64_t leaves = 0;  // micro-batches in all, of steps that count and of those that were done again
  double speed = 0;     // micro-batches per second while it computes
  cluster::TrainTimes times = {};
  double cpu_seconds = 0;                       // of its process, all threads
  uint64_t bytes_sent = 0, bytes_received = 0;  // over the links it has now
  uint64_t gradient_bytes = 0;                  // as floats, of gradients that it sent,
  uint64_t gradient_bytes_sent = 0;             // and as they were sent
  uint64_t weight_bytes = 0, weight_bytes_sent = 0;
  std::string packing_gradients = {}, packing_weights = {};  // whether they are compressed, and why
  uint32_t shard_begin = 0, shard_end = 0;                   // norm blocks that it owns
  bool here = true;                                          // false: it was lost
};

struct TrainingReport {
  uint64_t step = 0;
  cluster::TrainLeadCounters counters;
  std::vector<TrainMemberReport> members;
  cluster::TrainPlan plan;
  std::string wire;                              // how gradients are sent
  uint64_t parameter_bytes = 0, steps_made = 0;  // by this process
  size_t local_steps = 1;
  StepTrace trace;  // the last one that is whole
};

// step() and gather_state() are of one thread, on which this process computes its part too. Nodes come and go
// at any time: a thread watches `nodes`, and calls those who are new. Throws Error where the run cannot go on
// at all (a gradient that is not finite); lost nodes are no such thing.
class TrainingLeader final : public train::StepDriver {
 public:
  struct Options {
    train::TrainRun* run = nullptr;  // borrowed
    std::string name = "this node";
    // Who is up now, this node not among them. From the watching thread.
    std::function<std::vector<TrainNode>()> nodes = {};
    ConnectPeer connect = {};
    size_t nodes_wanted = 0;                         // the first step waits for so many others,
    Duration nodes_wait = std::chrono::seconds(30);  // but not longer than this
    cluster::Epoch first_epoch = 1;
    // Steps between snapshots at most; fewer where taking one costs less than a twentieth of the steps
    // between. A lost owner costs the steps since the last one.
    uint64_t snapshot_every = 20;
    uint64_t shard_bytes_min = 256 << 10;
    // Of weights, or of what members keep, in one message; what has more is refused.
    uint64_t values_bytes_max = kTrainValuesBytesMax;
    // Of a pipeline: what this node has for training (0: what the process may use), and how long to wait for
    // nodes where all that are there have too little.
    uint64_t memory_bytes = 0;
    Duration room_wait = std::chrono::minutes(10);
    // Of an adapter's run: the files of its base model, which nodes that do not have it fetch under this id;
    // empty: they must have it.
    std::string base_id = {};
    std::function<void(const std::string& line)> say = {};  // for people; may be null
  };
  explicit TrainingLeader(Options options);
  ~TrainingLeader() override;

  train::StepReport step(std::span<const train::MicroBatch> batches) override;
  void gather_state() override;
  void bring_weights() override {
    if (pipeline_ != nullptr) gather_state();
  }
  TrainingReport report() const;

 private:
  // Threads of the links.
  LeaderLinks::Events link_events();
  Result<LinkReaders::Taken> receive_moments(TrainLink& link, cluster::TrainMemberId from,
                                             const TrainLink::Incoming& incoming);

  // The computing thread.
  void wait_for_nodes();
  void pump();
  void joined(const cluster::TrainPlan::Member& row, const std::shared_ptr<TrainLink>& link,
              uint64_t memory_bytes);
  // `hold`: until it is asked again.
  void lost(cluster::TrainMemberId id, const std::string& why, Duration hold = {});
  void handle(cluster::TrainMemberId from, const cluster::ToTrainLead& report);
  void act();
  void perform(const cluster::BeginEpoch& action);
  void perform(const cluster::DealStep& action);
  void perform(const cluster::CutShort& action);
  void perform(const cluster::CommitStep& action);
  void perform(const cluster::GatherState& action);
  void perform(const cluster::KeepSnapshot& action);
  void perform(const cluster::DropMember& action);
  void check_sizes();
  std::unique_ptr<MemberWork> make_runner();
  size_t targets_seen() const;
  // What the sum of a step that was cut short is multiplied by.
  double merge_scale() const;
  std::vector<cluster::BroadcastRow> tree_of(const cluster::BeginEpoch& action) const;
  void send_weights(const cluster::TrainPlan& plan, const std::vector<cluster::BroadcastRow>& tree);
  void send_stage(TrainLink& link, const cluster::TrainPlan& plan, cluster::TrainMemberId id);
  void load_own_stage(const cluster::TrainPlan& plan);
  void keep_stages(const cluster::KeepSnapshot& action);
  void wait_for_room(TimePoint& since);
  // The micro-batches of a step; of an earlier one they are made again.
  std::span<const train::MicroBatch> batches_of(uint64_t step);
  void send_inputs(TrainLink& link, cluster::Epoch epoch, uint64_t step,
                   std::span<const train::MicroBatch> batches);
  void say(const std::string& line) const {
    if (options_.say) options_.say(line);
  }

  const Options options_;
  train::TrainRun& run_;
  train::Trainer& trainer_;
  const uint64_t run_number_;
  std::string config_;  // lines for members
  std::string agreement_;
  std::vector<std::byte> model_;  // the file that members get

  cluster::TrainLead lead_;
  std::unique_ptr<LeaderLinks> links_;
  std::unique_ptr<MemberWork> runner_;
  PipelineRunner* pipeline_ = nullptr;  // the same, where the network is cut into stages
  bool begun_ = false, few_said_ = false, short_said_ = false;
  TrainSnapshot snapshot_;
  std::map<cluster::TrainMemberId, Buffer> gathered_;  // kept_pieces(), as they were sent
  // Of the step that is asked for.
  uint64_t current_step_ = 0;
  std::span<const train::MicroBatch> current_;
  train::Batch again_;  // of an earlier one
  std::vector<train::MicroBatch> again_parts_;
  std::vector<cluster::DealtLeaves> deal_;
  std::vector<train::LeafReport> reports_;
  std::vector<size_t> leaf_targets_;
  std::map<cluster::TrainMemberId, size_t> targets_seen_;  // of those who are done
  std::map<cluster::TrainMemberId, std::vector<float>> squares_;
  double norm_ = 0;
  double compute_seconds_ = 0;  // of all members in this step
  uint64_t steps_made_ = 0;
  const TimePoint created_ = system_now();
  double longest_step_ = 0;  // seconds
  double usual_step_ = 0;    // seconds: the last steps count most
  TimePoint gather_began_;

  mutable std::mutex mutex_;  // of what follows
  std::map<cluster::TrainMemberId, TrainMemberReport> figures_;
  StepTracer tracer_;
};

}  // namespace butterfly::runtime
