// A node's part in training jobs: takes links of the leader and of other members, and works for one job at a
// time.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cluster/transport/link.h"
#include "runtime/training/train_link.h"
#include "runtime/training/train_node.h"

namespace butterfly::runtime {

class TrainingSession;

// accept() from any thread. A leader that calls while a job runs ends that one: there is one coordinator, and
// it calls again only after it began anew.
class TrainingWorker {
 public:
  struct Options {
    std::function<std::string()> coordinator = {};  // key of the only node that may lead; empty: any
    ConnectPeer connect = {};
    std::string address = {};   // where other members reach this node
    size_t threads = 0;         // 0: all CPUs
    uint64_t memory_bytes = 0;  // for training; 0: what this process may use
    // The arrays of a job are in memory, or are not any more; may be null.
    std::function<void(bool is)> occupied = {};
    FetchModel fetch_model = {};  // the base of an adapter that is not here; may be null
  };
  explicit TrainingWorker(Options options);
  ~TrainingWorker();  // stop()

  void accept(std::unique_ptr<cluster::Link> link);
  // Jobs from now on have the lowest priority of the system: something else is served here.
  void go_last() { last_ = true; }
  // The job under way ends; returns when nothing of it is in memory.
  void end_job();
  void stop();

 private:
  static constexpr size_t kVisitorsMax = 256;
  struct Visitor {
    std::shared_ptr<TrainLink> link;
    std::thread thread;
    bool done = false;  // with the mutex
  };
  void serve(const std::shared_ptr<TrainLink>& link);
  void lead(const std::shared_ptr<TrainLink>& link, const cluster::StartTraining& start);
  void reap(bool all);

  const Options options_;
  std::atomic<bool> last_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::list<Visitor> visitors_;
  std::shared_ptr<TrainingSession> session_;
};

}  // namespace butterfly::runtime
