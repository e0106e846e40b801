// One training job on one node, from the leader's first message to its last.
#pragma once
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/training/member_network.h"
#include "runtime/training/member_runner.h"
#include "runtime/training/training_worker.h"

namespace butterfly::runtime {

// run() is called on the thread that reads the leader's link; a thread of its own computes, one more links to
// peers, and each peer's link is read by the thread that calls serve_peer() or was started for it. What is
// small the computing thread reads from all of them while it waits (LinkReaders).
class TrainingSession {
 public:
  struct Options {
    std::shared_ptr<TrainLink> leader = {};
    cluster::StartTraining start = {};
    ConnectPeer connect = {};
    std::string address = {};
    size_t threads = 0;
    uint64_t memory_bytes = 0;
    std::function<void(bool is)> occupied = {};  // its arrays are in memory; may be null
    FetchModel fetch_model = {};                 // may be null: what is not here is missing
  };
  explicit TrainingSession(Options options);
  ~TrainingSession();

  uint64_t run_number() const { return options_.start.run; }
  // Until the leader ends it, or its link does. Says why.
  std::string run();
  // After run(): nothing of the network is left.
  void free_memory();
  // A peer that called: reads its link until it ends.
  void serve_peer(const cluster::PeerGreeting& greeting, std::shared_ptr<TrainLink> link);
  // From any thread.
  void stop();

 private:
  void receive_model(const std::filesystem::path& path);
  // As the leader has it; of an adapter's run with a path of its base on this machine.
  train::TrainConfig config_to_open(const std::filesystem::path& model) const;
  // The network, or what is needed for stages of it. Returns what it agrees to.
  std::string open_job();
  std::string obey();  // the leader's orders, until the last
  Result<LinkReaders::Taken> obey_one(const TrainLink::Incoming& incoming, bool patient);
  void on_plan(const cluster::TrainPlan& plan);
  Status on_deal(const cluster::DealtStep& dealt);
  void compute();
  void keep_linked();
  bool needs_link(const cluster::TrainPlan& plan, cluster::TrainMemberId other) const;
  void read_peer(cluster::TrainMemberId from, const std::shared_ptr<TrainLink>& link);
  std::shared_ptr<TrainLink> link_to(cluster::TrainMemberId to);
  void send_report(const cluster::ToTrainLead& report);
  void fail(const std::string& why);

  const Options options_;
  MemberNetwork member_;  // without a pipeline
  std::unique_ptr<MemberWork> runner_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  size_t socket_bytes_ = 0;  // of links to peers
  cluster::TrainPlan plan_;
  std::map<cluster::TrainMemberId, std::shared_ptr<TrainLink>> peers_;
  std::optional<TimePoint> broken_at_;  // a link of this epoch ended
  std::vector<std::thread> readers_;
  size_t serving_ = 0;  // threads inside serve_peer()
};

}  // namespace butterfly::runtime
