// A member of a training job at work, however the network is shared out: orders of the leader, values that
// arrive, and one thread that computes. The leader's process has one, and every worker.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/training/train_member.h"
#include "cluster/training/train_message.h"
#include "runtime/training/link_readers.h"
#include "runtime/training/train_link.h"
#include "runtime/training/work_times.h"
#include "train/trainer/network.h"

namespace butterfly::runtime {

// Micro-batches of this member, and what keeps them alive.
struct MemberInputs {
  std::vector<train::MicroBatch> batches;
  std::shared_ptr<const void> keep;
};

// What a member asks of those who hold its links.
struct MemberCalls {
  // On the computing thread.
  std::function<void(const cluster::ToTrainLead& report)> report = {};
  // To another member; null where there is none now. What cannot be sent is the link's business: it ends, and
  // the leader knows. From any thread.
  std::function<std::shared_ptr<TrainLink>(cluster::TrainMemberId to)> link_to = {};
  // The leader's own: all weights of this step that belong here are here. On the computing thread.
  std::function<void(cluster::Epoch epoch, uint64_t step)> on_complete = {};

  void send_values(cluster::TrainMemberId to, cluster::Epoch epoch, uint64_t step,
                   const cluster::ValuesHead& head, ConstPieces pieces) const;
};

// One thread computes: it calls run_one() again and again, and everything that takes long or changes weights
// happens there, but for values that arrive, which who reads a link puts where they belong (receive()): its
// own thread, or the computing one while it waits (readers()). Orders come from any thread and are decided at
// once. Jobs of others on the same thread go through post().
class MemberWork {
 public:
  virtual ~MemberWork() = default;
  MemberWork() = default;
  MemberWork(const MemberWork&) = delete;
  MemberWork& operator=(const MemberWork&) = delete;

  // ---- Orders, from any thread. Throw Error kCorrupt for what cannot be obeyed ----
  virtual void plan(const cluster::TrainPlan& plan) = 0;
  virtual void peers_linked(cluster::Epoch epoch) = 0;
  virtual void deal(const cluster::DealtStep& step, MemberInputs inputs) = 0;
  virtual void commit(const cluster::CommitDealtStep& commit) = 0;
  virtual void gather(const cluster::GatherTrainState& gather) = 0;
  // Where what is computed can end early.
  virtual void cut(const cluster::CutDealtStep&) {}

  // ---- Values, on the thread that reads their link ----
  // All links of the member are read through this.
  LinkReaders& readers() { return readers_; }
  // Says where they go. Waits while the machine says so; who is not `patient` is told `later` instead. Errors
  // end the link: kCorrupt for what no rule allows.
  using Taken = LinkReaders::Taken;
  virtual Result<Taken> receive(TrainLink& link, cluster::TrainMemberId from,
                                const TrainLink::Incoming& incoming, bool patient) = 0;
  // The leader's own state from its snapshot: `copy` is called on the computing thread once nobody uses what
  // it replaces, unless another plan came meanwhile.
  void load_state(const cluster::TrainPlan& plan, std::function<void()> copy);

  // ---- The computing thread ----
  void post(std::function<void()> job);
  // Waits for a job and does it. False: there was none in time, or stop() was called.
  bool run_one(Duration timeout);
  // Ends every wait. From any thread.
  virtual void stop();
  // After stop(), and when links are closed: waits for threads that send. Before what calls reach is gone;
  // nobody may hold a lock that they take.
  virtual void end_sending() {}
  bool stopped() const;

  virtual uint64_t step() const = 0;
  virtual cluster::TrainPlan current_plan() const = 0;

 protected:
  using Lock = std::unique_lock<std::mutex>;
  // The machine's answer, of those who are patient once it is not kWait any more; kDrop when all is over.
  template <typename Ask>
  cluster::Arrival wait_for(Lock& lock, bool patient, Ask ask) {
    cluster::Arrival arrival = cluster::Arrival::kWait;
    const auto decided = [&] { return stopped_ || (arrival = ask()) != cluster::Arrival::kWait; };
    if (patient)
      changed_.wait(lock, decided);
    else
      (void)decided();
    return stopped_ ? cluster::Arrival::kDrop : arrival;
  }
  // Wakes all who wait, the computing thread too. With the lock.
  void notify();
  static Status refuse(TrainLink& link, const TrainLink::Incoming& incoming, const std::string& why);
  // What other threads have sent for the computing one. With the lock.
  virtual SendingSeconds sending() const { return {}; }
  // Of the machine, with the lock: whether state may be replaced, and that it was.
  virtual cluster::Arrival may_load(cluster::Epoch epoch) = 0;
  virtual void loaded(const cluster::TrainPlan& plan) = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::deque<std::function<void()>> jobs_;  // at most what a step has: pieces of members and a few actions
  WorkTimes times_;                         // of the computing thread
  LinkReaders readers_;
};

}  // namespace butterfly::runtime
