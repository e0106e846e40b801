// The leader's links of a training job: calls nodes that are new, agrees with them on the run, reads what
// they send.
#pragma once
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cluster/training/train_message.h"
#include "runtime/training/link_readers.h"
#include "runtime/training/train_link.h"
#include "runtime/training/train_node.h"

namespace butterfly::runtime {

// A thread watches who is up, one calls each new node, one reads each link. Everything else may come from any
// thread. A node whose call failed, or who was removed, is called again after a while.
class LeaderLinks {
 public:
  struct Options {
    std::function<std::vector<TrainNode>()> nodes = {};  // who is up now; from the watching thread
    ConnectPeer connect = {};
    cluster::StartTraining start = {};      // without who it is for
    std::span<const std::byte> model = {};  // the file that members get; borrowed
    std::string agreement = {};             // what they must have made of it
    size_t socket_bytes = 0;                // of every link; 0: as the system has them
    LinkReaders* readers = nullptr;         // of what members send; borrowed
  };
  // From threads of this class, and of who waits on the readers, until end() has returned and its links are
  // closed.
  struct Events {
    std::function<void(cluster::TrainPlan::Member row, std::shared_ptr<TrainLink> link,
                       uint64_t memory_bytes)>
        agreed;
    std::function<void(cluster::TrainMemberId from, cluster::ToTrainLead message)> message;
    // As LinkReaders::Take.
    std::function<Result<LinkReaders::Taken>(TrainLink& link, cluster::TrainMemberId from,
                                             const TrainLink::Incoming& incoming, bool patient)>
        values;
    std::function<void(cluster::TrainMemberId from, std::string why)> ended;
  };
  LeaderLinks(Options options, Events events) : options_(std::move(options)), events_(std::move(events)) {}
  ~LeaderLinks();

  void start();
  // Says it to the members and closes all links; nobody is called any more.
  void end(const std::string& why);

  // Who agreed is a member from now on, and its link is read. False after end().
  bool admit(const cluster::TrainPlan::Member& row, std::shared_ptr<TrainLink> link);
  // Closes its link; it is not called again for `hold`. Its name, or nothing if it is no member.
  std::optional<std::string> remove(cluster::TrainMemberId id, Duration hold);
  std::shared_ptr<TrainLink> of(cluster::TrainMemberId id) const;  // null: no member
  uint64_t bytes_sent() const;
  uint64_t bytes_received() const;

 private:
  struct Remote {
    cluster::TrainPlan::Member row;
    std::shared_ptr<TrainLink> link;
    std::thread reader;
  };
  void watch();
  void call(const TrainNode& node, cluster::TrainMemberId id);
  Status agree(TrainLink& link, cluster::TrainMemberId id, cluster::TrainingAgreed& agreed,
               Duration& hold) const;
  void read(cluster::TrainMemberId id, const std::shared_ptr<TrainLink>& link);

  const Options options_;
  const Events events_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  bool ending_ = false;
  std::map<cluster::TrainMemberId, Remote> remotes_;
  std::map<std::string, cluster::TrainMemberId> by_key_;  // called, or members
  std::map<std::string, TimePoint> not_before_;           // keys that refused, or failed
  cluster::TrainMemberId next_id_ = 1;
  std::map<cluster::TrainMemberId, std::shared_ptr<TrainLink>> calling_;  // until they agreed
  std::list<std::thread> callers_;
  std::vector<std::thread> ended_;  // readers of members that are gone
  std::thread watcher_;
};

}  // namespace butterfly::runtime
