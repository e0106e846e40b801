// Who reads the links of a member: a thread for each, or the one that computes while it waits or sends.
#pragma once
#include <poll.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/function_ref.h"
#include "runtime/training/train_link.h"

namespace butterfly::runtime {

// To wake the thread of a link, and then the one that computes, takes longer than a small message does; and
// two threads that hand large values to each other on a CPU each do no more than one that takes turns. So a
// thread that has read a message lends its link to the computing thread, which looks itself for what comes
// while it waits: for a moment without sleeping, then in one poll over all lent links. What it has to send
// itself goes out meanwhile, a part at a time, so that no two of them wait for each other.
//
// Once the computing thread has been at work for kBusyMax, threads take their links back, also in the middle
// of a message (sockets hold what comes until then). What has to wait for something else is left to the
// link's own thread. Links that cannot be polled are never lent.
class LinkReaders {
 public:
  // A thread that has read the head of so few values reads them, too, before it lends its link.
  static constexpr size_t kSmallBytesMax = 64 << 10;
  static constexpr Duration kBusyMax = std::chrono::milliseconds(4);
  // How long wait() looks before it sleeps. It does not where somebody else wants this CPU, with one CPU, and
  // where the process gives way to others by its priority; nor while values come or go slower than this, as
  // over a cable: to wake up takes less time than their way.
  static constexpr Duration kSpinMax = std::chrono::milliseconds(1);
  static constexpr double kSpinBytesPerSecond = 250e6;
  // Nothing of a message that has begun for so long: its own thread waits for the rest.
  static constexpr Duration kLentPartMax = std::chrono::seconds(60);

  // What was done with a message.
  struct Taken {
    // It has to wait for something else, and nothing was taken of it.
    bool later = false;
    // It is values that were placed (TrainLink::place_values() or drop_values()). Called once they are there,
    // or with what ended the link before; says what is to become of the link.
    std::function<Status(const Status& came)> placed = {};
  };
  // Nobody wants its values.
  static Taken drop(TrainLink& link, const TrainLink::Incoming& incoming);
  // Takes all of a message, or says where its values go. `patient`: on the link's own thread, which waits for
  // what it has to. An error ends the link; what it throws comes out of read().
  using Take = std::function<Result<Taken>(const TrainLink::Incoming& incoming, bool patient)>;

  LinkReaders();
  ~LinkReaders();
  LinkReaders(const LinkReaders&) = delete;
  LinkReaders& operator=(const LinkReaders&) = delete;

  // The link's own thread: until it ends, or what is taken from it is wrong. Says why.
  Status read(TrainLink& link, const Take& take);

  // The computing thread: takes what comes until there is `enough`, or `until`.
  void wait(TimePoint until, FunctionRef<bool()> enough);

  struct Sending {
    std::shared_ptr<TrainLink> link;
    TrainLink::Outgoing values;
    Status status = {};  // how it went
    bool begun = false, over = false;
    TimePoint moved_at = {};  // when bytes of it did last
  };
  // The computing thread: until all are handed to the system, each by its link; takes what comes meanwhile. A
  // link that takes nothing for TrainLink::kSendMax is closed.
  void send(std::span<Sending> all);

  // From any thread: wait() asks again whether there is enough.
  void wake();
  // Nothing is lent any more. From any thread.
  void stop();

 private:
  // A link that is read. Of its own thread, or of the computing one while it is lent.
  struct Slot {
    TrainLink& link;
    const Take& take;
    bool lent = false;  // with the lock
    std::condition_variable returned = {};
    bool drained = false;                              // nothing lies there that a poll would not show
    Status status = {};                                // what ended it on the computing thread,
    std::exception_ptr error = nullptr;                // or what `take` threw there
    std::optional<TrainLink::Incoming> begun = {};     // a message that nobody has taken yet,
    std::function<Status(const Status&)> placed = {};  // or whose values come now,
    TimePoint moved_at = {};                           // the last of them then
  };
  bool lend(Slot& slot);
  static Status end_placed(Slot& slot, const Status& came);
  void give_back(Slot& slot);
  void give_all_back();  // with the lock
  void keep_watch();
  bool take_one(Slot& slot, bool& any);
  bool take_all(Slot& slot);
  bool send_some(Sending& sending);
  bool send_all();
  void moved(const cluster::Moved& moved, TimePoint& moved_at);
  bool spin(TimePoint until, uint64_t lent, FunctionRef<bool()> enough);
  bool look(TimePoint until, FunctionRef<bool()> enough);
  void look_after(TimePoint now);

  const int wake_fd_;
  std::atomic<bool> sleeping_{false}, stopped_{false};
  std::atomic<uint64_t> lent_{0};  // how often a link was

  std::mutex mutex_;  // of what follows
  std::vector<Slot*> slots_;
  bool waiting_ = false;  // the computing thread is in wait(), and alone shortens slots_
  TimePoint left_at_{};   // when it was there last
  bool over_ = false, watch_sleeps_ = false;
  std::condition_variable watch_wanted_;
  std::thread watch_;  // since the first time that something was lent

  // Of the computing thread.
  std::vector<Slot*> mine_;
  std::vector<pollfd> fds_;
  std::span<Sending> sending_;
  bool slow_ = false;  // the values that moved last, and more are to come
};

}  // namespace butterfly::runtime
