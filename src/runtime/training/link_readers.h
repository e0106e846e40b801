// Who reads the links of a member: a thread for each, or the one that computes while it waits.
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

// To wake the thread of a link, and then the one that computes, takes longer than a small message does. So a
// thread that has read a small one lends its link to the computing thread, which looks itself for what comes
// while it waits: for a moment without sleeping, then in one poll over all lent links.
//
// Once the computing thread has been at work for kBusyMax, threads take their links back (sockets hold what
// comes until then). What is large is read by the link's own thread, beside those of other links, and so is
// what has to wait. Links that cannot be polled are never lent.
class LinkReaders {
 public:
  static constexpr size_t kSmallBytesMax = 64 << 10;  // of values
  static constexpr Duration kBusyMax = std::chrono::milliseconds(4);
  // How long wait() looks before it sleeps. It does not where somebody else wants this CPU, with one CPU, and
  // where the process gives way to others by its priority.
  static constexpr Duration kSpinMax = std::chrono::milliseconds(1);
  // For the rest of a small message that has begun, on the computing thread.
  static constexpr Duration kLentPartMax = std::chrono::seconds(60);

  // Receives or skips all of what came. `patient`: on the link's own thread. If not, the answer may be false:
  // it has to wait for something else, and nothing was taken of it. An error ends the link; what it throws
  // comes out of read().
  using Take = std::function<Result<bool>(const TrainLink::Incoming& incoming, bool patient)>;

  LinkReaders();
  ~LinkReaders();
  LinkReaders(const LinkReaders&) = delete;
  LinkReaders& operator=(const LinkReaders&) = delete;

  // The link's own thread: until it ends, or what is taken from it is wrong. Says why.
  Status read(TrainLink& link, const Take& take);

  // The computing thread: takes what comes until there is `enough`, or `until`.
  void wait(TimePoint until, FunctionRef<bool()> enough);

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
    bool drained = false;                           // nothing lies there that a poll would not show
    Status status = {};                             // what ended it on the computing thread,
    std::exception_ptr error = nullptr;             // or what `take` threw there
    std::optional<TrainLink::Incoming> begun = {};  // a message that nobody has taken yet
  };
  bool lend(Slot& slot);
  void give_back(Slot& slot);
  void give_all_back();  // with the lock
  void keep_watch();
  bool take_begun(Slot& slot);
  bool take_all(Slot& slot);
  bool spin(TimePoint until, uint64_t lent, FunctionRef<bool()> enough);
  bool look(TimePoint until, FunctionRef<bool()> enough);

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
};

}  // namespace butterfly::runtime
