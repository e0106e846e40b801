// Members of a stage, each linked to each, who tell each other their parts of a layer. Knows bytes and order,
// not models.
//
// A round: everybody sends what it has to all others (or pieces of it to one) as one gathered write for each,
// and receives theirs where they are wanted. Sizes are known before; anything else that comes is an error
// that names the member. Steps and bytes: docs/algorithms.md.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cluster/transport/link.h"

namespace butterfly::cluster {

struct MemberLinksOptions {
  // For what one member sends, and for its turn to come: others may compute long. A backstop: who is dead is
  // found out by its link, who is silent by its heartbeats.
  Duration timeout = std::chrono::seconds(120);
  // How long a member looks for what comes before it sleeps: the thread that waits is the one that computes,
  // so nobody misses its CPU. Waking up costs more than an exchange. What start() leaves under way is waited
  // for beside a thread that computes, and sleeps at once.
  Duration spin = std::chrono::milliseconds(5);
  // More than this is sent by a thread beside the one that receives: two who send each other more than
  // sockets hold would wait for each other.
  size_t safe_bytes = 32u << 10;
};

// One member's end. run(), start() and finish() belong to one thread; close() and waiting() may come from
// any. After an error the group is over: close it and make another.
class MemberLinks {
 public:
  static constexpr size_t kAll = SIZE_MAX;

  // links[i] leads to member i; null at `self`.
  MemberLinks(std::vector<std::shared_ptr<Link>> links, size_t self, const MemberLinksOptions& options = {});
  ~MemberLinks();
  MemberLinks(const MemberLinks&) = delete;
  MemberLinks& operator=(const MemberLinks&) = delete;

  size_t members() const { return links_.size(); }
  size_t self() const { return self_; }
  Link& link(size_t member) const { return *links_[member]; }

  struct Outgoing {
    std::span<const std::byte> bytes;
    size_t to = kAll;  // or this member alone
  };
  struct Incoming {
    size_t member;
    std::span<std::byte> into;
  };
  // A member's pieces in `from` stand in the order in which it sends them. Returns when all has come and all
  // is handed over. Rounds are numbered, so that ends that disagree find out. kPeerLost, kTimeout, kCancelled
  // after close(), or kCorrupt.
  Status run(std::span<const Outgoing> mine, std::span<const Incoming> from);
  // The same in two parts: two threads send and receive while the caller computes, and what the pieces point
  // to stays until finish(), which belongs to the first start() that has none yet. All that was started is
  // finished before the next run().
  void start(std::span<const Outgoing> mine, std::span<const Incoming> from);
  Status finish();

  // Rounds of another epoch count from 1 again.
  void begin_epoch(uint64_t epoch);
  // Whether the caller's thread waits for another member at this moment.
  bool waiting() const { return waiting_.load(std::memory_order_relaxed); }
  void close();

 private:
  // One that threads beside the caller work on.
  struct Round {
    uint64_t number;
    std::vector<Outgoing> mine;
    std::vector<Incoming> from;
    bool is_sent = false, is_received = false;
    Status sent = {}, received = {};
  };
  Status send_all(uint64_t round, std::span<const Outgoing> mine);
  Status receive_all(uint64_t round, std::span<const Incoming> from, Duration spin);
  Status receive(size_t member, uint64_t round, std::span<const Incoming> from, Duration spin);
  Result<MessageHead> wait_for_head(Link& link, Duration spin);
  void send_beside();
  void receive_beside();
  Round* first_round(bool Round::*done);
  Status named(size_t member, const Status& status) const;

  const std::vector<std::shared_ptr<Link>> links_;
  const size_t self_;
  const MemberLinksOptions options_;
  uint64_t epoch_ = 0, round_ = 0;
  std::atomic<bool> waiting_{false};

  // Threads are there from the first time on that they are needed.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Round> rounds_;  // in order; those that are not finished
  bool over_ = false;
  std::thread sender_, receiver_;
};

}  // namespace butterfly::cluster
