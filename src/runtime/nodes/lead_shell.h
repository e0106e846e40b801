// Drives a seat's state machine (cluster::LeadSeat) with real clocks, links and a journal.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cluster/identity/authority.h"
#include "cluster/lead/lead_seat.h"
#include "cluster/transport/hello.h"
#include "cluster/transport/transport_table.h"
#include "runtime/nodes/event_loop.h"
#include "runtime/nodes/journal_copier.h"
#include "runtime/nodes/lead_desk.h"

namespace butterfly::runtime {

// One thread decides; each node that is asked has one of its own, and so has each that gets copies. From any
// thread. A person's wish to lead is a file in the state folder (kPromoteFile), looked for now and then.
class LeadShell {
 public:
  static constexpr const char* kPromoteFile = "promote";

  struct Options {
    cluster::StateFolder folder;
    cluster::NodeId self;
    std::shared_ptr<LeadDesk> desk;
    std::shared_ptr<cluster::Transport> transport;
    cluster::Hello hello;
    std::optional<cluster::Authority>
        authority;            // where the cluster was made: signs mandates, and leads without any
    cluster::Term after = 0;  // LeadSeatConfig::after
  };
  explicit LeadShell(Options options);
  ~LeadShell();  // stop()

  void start();
  // Says so to the voters where this node leads, so that the standby need not wait.
  void stop();

  struct View {
    cluster::LeadSeat::Role role{};
    cluster::Term term = 0;
    std::string leader;                // key; empty: nobody
    std::string why_not;               // it does not lead
    std::vector<std::string> in_sync;  // names of the other seats that have the journal
  };
  View view() const;
  bool leads() const { return view().role == cluster::LeadSeat::Role::kLeading; }
  bool over() const { return view().role == cluster::LeadSeat::Role::kOver; }
  // What clients get now comes from who leads. Cheap.
  bool may_speak() const;
  const std::shared_ptr<LeadDesk>& desk() const { return options_.desk; }
  cluster::Mandate mandate() const;

  // Who shall be able to lead and to vote; asked now and then while this node leads and has the authority. An
  // empty list of seats: not known yet.
  struct Wanted {
    std::vector<cluster::NodeId> seats, voters;
  };
  void want(std::function<Wanted()> wanted);
  // Where a node is now, if the coordinator here knows; else where it was seen last.
  void find_by(std::function<std::string(const std::string& key)> address);
  std::string address_of(const std::string& key) const;

  // ---- The journal of who leads ----
  // All of it, instead of what was there.
  void journal_is(const std::string& all);
  // The number that these lines have now.
  uint64_t journal_grew(const std::string& lines);
  // Waits until whoever leads next has everything up to this number. kCancelled: this node does not lead any
  // more.
  Status wait_safe(uint64_t number) const;

 private:
  class Asker;
  void tick();
  void act();  // of the loop's thread, after every event
  void want_mandate();
  void look_for_promotion();
  cluster::LeadQuestion with_addresses(cluster::LeadQuestion question) const;

  Options options_;
  cluster::LeadSeat machine_;  // of the loop's thread
  std::map<std::string, std::unique_ptr<Asker>> askers_;
  JournalMirror mirror_;
  std::map<std::string, std::unique_ptr<JournalCopier>> copiers_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  View view_;
  cluster::Mandate mandate_;
  uint64_t safe_ = 0;
  std::function<Wanted()> wanted_;
  std::function<std::string(const std::string& key)> address_;
  std::atomic<int64_t> speak_until_{0};  // of boot_now()
  TimePoint looked_at_{};
  bool stopped_ = false;
  EventLoop loop_;
};

}  // namespace butterfly::runtime
