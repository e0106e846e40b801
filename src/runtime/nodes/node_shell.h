// Drives a node's state machine (cluster::Worker) with a real clock, a real link and a real stage.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "base/late_watch.h"
#include "cluster/member/worker.h"
#include "runtime/nodes/control_links.h"
#include "runtime/nodes/node_memory.h"
#include "runtime/nodes/parked_caches.h"
#include "runtime/nodes/stage_backend.h"

namespace butterfly::runtime {

// One thread decides, one works for each job, links have their own; nothing here blocks the one that decides.
class NodeShell {
 public:
  struct Options {
    cluster::WorkerConfig worker;
    std::function<Result<std::unique_ptr<cluster::Link>>(const std::string& address, Duration timeout)>
        connect;
    // A backend for each job that this node is told of; called once for each, on the shell's thread.
    std::function<std::shared_ptr<StageBackend>(cluster::JobId job)> make_stage;
    std::shared_ptr<NodeMemory> memory;         // which they share
    std::shared_ptr<ParkedCaches> parked = {};  // also; may be null
    // Null: links are not measured.
    std::function<Result<cluster::LinkFigures>(const cluster::NodeId& peer, const std::string& address)>
        measure;
    // These keys were taken out of the cluster. On a thread that may wait for the disk; may be null.
    std::function<void(const std::vector<std::string>& keys)> cut_off;
    // Who else may lead: the addresses to ask when the coordinator is gone. On a thread that may wait; may be
    // null.
    std::function<std::vector<std::string>(const cluster::Leaders& leaders)> keep_leaders;
    // The coordinator does not want this node any more: called once, on the shell's thread.
    std::function<void(const std::string& why)> on_given_up;
  };
  explicit NodeShell(Options options);
  ~NodeShell();  // stop()

  void start();
  // As Worker::promised(). From any thread.
  void promised(cluster::Incarnation incarnation);
  // As Worker::set_coordinators(). From any thread.
  void set_coordinators(std::vector<std::string> addresses);
  // Asks to have its parts moved to other nodes; view().retired says when they are, or cannot be.
  void retire(const std::string& why);
  // Says good-bye, ends the stage and waits for everything. Safe to call twice.
  void stop(const std::string& why);

  struct View {
    cluster::Worker::State state{};
    cluster::WorkerPhase phase{};
    std::string problem = {};
    std::string notice = {};         // of the coordinator, for this node's user
    bool retired = false;            // after retire()
    std::string why_not_moved = {};  // empty: all was
    uint32_t begin = 0, end = 0;     // pieces it has or loads, of its first job with some; equal: none
  };
  View view() const;

 private:
  void tick();
  void watch_machine();
  void act();  // carries out what the machine asks for
  void perform(cluster::ConnectToCoordinator action);
  void perform(cluster::SendToCoordinator action);
  void perform(cluster::CloseWorkerLink action);
  void perform(cluster::PrepareWeights action);
  void perform(cluster::StopPreparing action);
  void perform(cluster::CutOff action);
  void perform(cluster::KeepLeaders action);
  void perform(cluster::LoadStage action);
  void perform(cluster::RunStage action);
  void perform(cluster::StopStage action);
  void perform(cluster::FreeWeights action);
  void perform(cluster::MeasurePeer action);
  void perform(cluster::GiveUp action);
  void received(cluster::LinkNumber link, const cluster::Message& message);
  // What works for one job: its orders wait for each other, and for no other job's.
  struct JobWork {
    explicit JobWork(std::shared_ptr<StageBackend> backend);
    // An order that makes earlier ones pointless begins.
    std::shared_ptr<std::atomic<bool>> new_order();

    const std::shared_ptr<StageBackend> stage;
    std::shared_ptr<std::atomic<bool>> order = std::make_shared<std::atomic<bool>>(false);
    std::shared_ptr<std::atomic<bool>> preparing = order;  // the order to prepare, if that is the last
    EventLoop loop;
  };
  JobWork& work_of(cluster::JobId job);

  Options options_;
  cluster::Worker machine_;          // of the loop's thread
  MachineLoadSampler machine_load_;  // of the watching loop's
  LateWatch late_;

  mutable std::mutex view_mutex_;
  View view_;
  std::atomic<bool> stopped_{false};
  // Ended in this order: nobody posts to a loop that is gone.
  EventLoop loop_, dial_, measuring_, watching_;
  std::map<cluster::JobId, std::unique_ptr<JobWork>> works_;  // of the loop's thread; at most kJobsMax
  ControlLinks links_;
};

}  // namespace butterfly::runtime
