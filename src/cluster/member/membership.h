// Who is here, who can reach whom, and who is held back: what all jobs of a cluster have in common.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/member/coordinator_action.h"
#include "cluster/member/event_log.h"
#include "cluster/member/health.h"
#include "cluster/member/known_links.h"
#include "cluster/member/load_history.h"
#include "cluster/member/placement.h"

namespace butterfly::cluster {

struct CoordinatorConfig {
  Incarnation incarnation = 1;  // next_incarnation()
  NodeId self = {};             // the node of this process: never removed, first source of weights
  std::string address = {};     // where this process accepts links: the last stage sends its results here
  uint32_t numerics_id = 0;
  int64_t unix_ms = 0;  // time of day at the start, to compare with others'; 0: not known
  HealthLimits health = {};
  Duration beat_every = std::chrono::milliseconds(250);
  Duration join_wait = std::chrono::seconds(5);  // from an open link to its Join
  // The first plan of a job waits for so many nodes, but not longer than this.
  size_t nodes_wanted = 1;
  Duration nodes_wait = std::chrono::seconds(10);
  Duration settle = std::chrono::milliseconds(300);  // after a join, for others that come with it
  bool measure_links = true;
  Duration measure_wait = std::chrono::seconds(5);  // for one link; a plan waits for all, at most as long
  size_t measure_peers = 8;                         // per node that joins, beside the coordinator's own
  Duration figures_age = std::chrono::hours(1);     // then a node that comes back is measured again
  std::vector<KnownLink> known_links = {};          // of an earlier start; needs unix_ms
  Duration plan_wait = std::chrono::seconds(30);
  Duration pause_wait = std::chrono::seconds(5);
  Duration start_wait = std::chrono::seconds(10);          // Go to Started
  Duration load_stall = std::chrono::seconds(20);          // loading without progress
  Duration load_wait = std::chrono::hours(2);              // loading at all
  Duration trouble_wait = std::chrono::milliseconds(250);  // after Trouble, for the death it announces
  // A node that failed is left out of plans this long, doubling. One that was lost is taken back at once if
  // the model does not fit without it; one that could not load is not.
  Duration hold_min = std::chrono::seconds(5);
  Duration hold_max = std::chrono::minutes(5);
  // Peers a node may have trouble with in hold_max before the trouble is its own.
  size_t troubles_max = 3;
  // Between attempts to find a plan or to load it.
  Duration retry_min = std::chrono::milliseconds(200);
  Duration retry_max = std::chrono::seconds(5);
  double gain_min = 1.1;  // a plan that works is left for one that is this much faster
  // A node that was found slow and has no work any more is tried again after this: nobody can see how it is.
  Duration slowness_age = std::chrono::minutes(10);
  size_t events_max = 1000;
  size_t links_max = 1024;  // open at once, joined or not
  size_t refused_max = 16;  // remembered, for status pages; the oldest goes
};

enum class NodeState : uint8_t { kUp, kSuspect, kDead, kLeft, kRemoved };
std::string_view node_state_name(NodeState state);

// Left out of plans for a while, after failures.
struct Hold {
  uint32_t failures = 0;
  TimePoint failed_at{};
  TimePoint until{};
  TimePoint released{};  // when the last one ended, or will
  bool firmly = false;   // also when the model does not fit without it

  // One more failure in a row, unless it had worked for as long as it was held back, and for kWorkedTimes
  // hold_min. Somebody who pulls a cable now and then does not wait for minutes; what fails as soon as it is
  // used does.
  static constexpr int kWorkedTimes = 2;
  // So many in a row are bad luck: hold_min each time. Then twice as long each, so that a process that
  // somebody ends again and again is used soon after it is back; beyond kWorseLuck doubling.
  static constexpr uint32_t kBadLuck = 3, kWorseLuck = 9;
  void extend(const CoordinatorConfig& config, bool firm, TimePoint now);
  bool allows(bool with_held, TimePoint now) const { return now >= until || (with_held && !firmly); }
  // It was only a link that broke, and it is back in the same process: a fraction of the time is enough.
  static constexpr int kLinkShare = 5;
  void shorten() { released = until = failed_at + (until - failed_at) / kLinkShare; }
  // It failed, and not long ago.
  bool doubted(const CoordinatorConfig& config, TimePoint now) const {
    return failures > 0 && now - failed_at < config.hold_max;
  }
  // True once, when the time is over.
  bool ends(TimePoint now);
};

// One node that is or was here. Read-only for others.
struct Member {
  NodeId id = {};
  NodeState state = NodeState::kUp;
  LinkNumber link = 0;  // 0 unless up or suspect
  uint64_t instance = 0;
  std::string address = {};
  Capabilities capabilities = {};
  Pulse pulse;
  TimePoint joined_at{};
  double rows_per_s = 0;  // worked on, over the last seconds
  double busy = 0;        // share of the last seconds in which its stages computed
  LoadHistory load = {};
  // Everything takes so many times as long as its capabilities say: what plans take it for, since then.
  double slowness = 1;
  bool was_held_up = false;  // what came to it had to wait until it ran
  TimePoint slowness_at{};   // when one of the two was seen last
  double clock_ahead_s = 0;  // of the coordinator's, when it joined
  Hold hold = {};            // from all jobs; each job has holds of its own beside it
  bool cut_off = false;      // it was lost when its link closed, which need not mean that its process ended
  std::string last_failure = {};
  // Its parts are moved away, by the operator's wish or because its process is about to end; until it joins
  // again.
  enum class Drain : uint8_t { kNo, kMoving, kDone };
  Drain drain = Drain::kNo;
  bool retires = false;              // the node asked for it, and is told
  std::string why_not_drained = {};  // nothing fits without it
  // Peers it had trouble with in the last while: who has trouble with many is the trouble.
  std::map<std::string, TimePoint> troubles = {};

  bool here() const { return state == NodeState::kUp || state == NodeState::kSuspect; }
  // For weights and cache of all jobs together: as its beats say, and before the first of them as it joined.
  uint64_t usable_bytes() const {
    const uint64_t said = pulse.last().ram_free_bytes;
    return said > 0 ? said : capabilities.ram_limit_bytes;
  }
};

// One that wanted to come in and may not: another version, say. Read-only for others.
struct RefusedNode {
  NodeId id = {};
  std::string why = {};
  uint64_t times = 0;
  TimePoint last{};
};

// `from` could not open a link to `to`. Read-only for others.
struct UnreachablePair {
  NodeId from = {}, to = {};
  std::string address = {};  // where it tried
  std::string why = {};
  TimePoint at{};
};

// What was dropped, and why it was.
struct CoordinatorCounters {
  uint64_t old_epochs = 0;     // reports about a plan that is over
  uint64_t unknown_links = 0;  // messages of links that are closed or not joined
  uint64_t duplicate_ids = 0;  // a second node with the identity of one that is here
  uint64_t refused = 0;
  uint64_t unexpected = 0;  // messages that make no sense here: the link is closed
  uint64_t unfounded = 0;   // trouble reported by who has no part in the plan, or about no neighbour of it
  uint64_t plans = 0;
  uint64_t halts = 0;
};

// Facts about nodes and pairs of nodes, and the way to tell the shell and the log. The coordinator changes
// who is here, jobs say who failed them. Not thread-safe; of the Coordinator that owns it, and of its jobs.
class Membership {
 public:
  using Pair = std::pair<std::string, std::string>;  // keys (from, to)

  Membership(CoordinatorConfig config, TimePoint now);

  const CoordinatorConfig& config() const { return config_; }
  std::map<std::string, Member>& members() { return members_; }
  const std::map<std::string, Member>& members() const { return members_; }  // by key
  Member* find(const NodeId& node);
  size_t nodes_here() const;
  // How many the first plan of a job waits for: without those that will not come.
  size_t nodes_wanted() const;
  void give_up_node() { ++nodes_given_up_; }

  // One number for every attempt of every job: older ones are known by it alone.
  Epoch next_epoch() { return ++last_epoch_; }

  void act(CoordinatorAction action) { actions_.push_back(std::move(action)); }
  void send(const Member& member, ToWorker message);
  void send(const NodeId& node, ToWorker message);
  void note(TimePoint now, EventKind kind, const std::string& node, Epoch epoch, std::string text);
  std::vector<CoordinatorAction> take_actions() { return std::exchange(actions_, {}); }
  const EventLog& events() const { return events_; }
  CoordinatorCounters& counters() { return counters_; }
  const CoordinatorCounters& counters() const { return counters_; }

  // ---- Blame ----
  // A node failed by itself.
  void hold(Member& member, bool firmly, const std::string& why, TimePoint now);
  // What went wrong between two nodes: neither is to blame alone. `unreachable`: a link could not even be
  // opened, once is enough.
  void note_broken(const NodeId& from, const NodeId& to, bool unreachable, TimePoint now);
  // A link that worked passes nothing any more: it need not fail a second time to be avoided, for a while
  // that doubles each time.
  void note_cut(const NodeId& from, const NodeId& to, TimePoint now);
  // The same where a link could not be opened: `to` and whoever asks for the status are told why.
  void cannot_reach(const Member& from, const Member& to, const std::string& why, TimePoint now);
  const std::map<Pair, UnreachablePair>& unreachable() const { return unreachable_; }
  // Trouble with one neighbour is the pair's; with several it is its own.
  void blame(const NodeId& reporter, const NodeId& peer, TimePoint now);
  // Pairs that plans avoid. Where nothing else fits (`with_held`), one that did not work is tried again after
  // a while.
  std::vector<Pair> broken_pairs(bool with_held, TimePoint now) const;
  // A way to it was cut a moment ago: whether it is that way or all of them is not known, and to find out by
  // a plan takes as long as opening a link may. Others may use it again before the next plan relies on it.
  bool is_doubtful(const std::string& key, TimePoint now) const;
  // The coordinator's node could not, or two others, and nobody ever could.
  bool nobody_reaches(const std::string& key, bool with_held, TimePoint now) const;
  // There are such that could be tried again now, or that may be whole.
  bool may_be_mended(TimePoint now) const;
  // True once for each pair that was cut and may be used again.
  bool has_rested(TimePoint now);
  // It came back: what was between it and others may be over.
  void forget_troubles(const std::string& key);

  // ---- Measured links (link_survey.cc) ----
  const std::map<Pair, LinkFigures>& links() const { return figures_; }
  // Two nodes that were never measured with each other: no faster than each is to the coordinator.
  std::optional<LinkFigures> estimate(const std::string& a, const std::string& b) const;
  // For the next start: every pair once. `links_changes` counts what would be written otherwise.
  std::vector<KnownLink> known_links(TimePoint now) const;
  uint64_t links_changes() const { return links_changes_; }
  // A node comes in at this address: figures of another one are forgotten.
  void arrives_at(const std::string& key, const std::string& address);
  // A node that joined is measured with the coordinator's and some others.
  void survey(const Member& member, TimePoint now);
  void survey_chain(const Placement& placement, TimePoint now);
  void stop_survey(const NodeId& node);
  void forget_links(const std::string& key);
  void ask_others(const Member& peer);
  bool survey_done(TimePoint now) const;
  // "measuring links, 3 of 10 done"; empty: nothing is being measured.
  std::string survey_words() const;
  void check_survey(TimePoint now);
  // True: it was the last of the survey, and plans may be better for it.
  bool link_report(const Member& member, const LinkReport& message, TimePoint now);
  void forgive(Duration gap);

 private:
  struct BrokenPair {
    uint32_t times = 0;
    TimePoint last{};
    bool unreachable = false;
    bool cut = false;    // the last time it passed nothing any more
    bool rests = false;  // until has_rested() says that it is over
    TimePoint asked{};   // whether it works again, or failed
    uint32_t asked_times = 0;
  };
  TimePoint rests_until(const BrokenPair& pair) const;
  TimePoint ask_again_at(const BrokenPair& pair) const;
  bool is_broken(const BrokenPair& pair, TimePoint now) const;
  void survey_pair(const Member& from, const Member& to, TimePoint now);
  void can_reach(const Pair& pair);
  void forget_unreachable(const std::string& key);
  void take_known_links(TimePoint now);

  const CoordinatorConfig config_;
  std::map<std::string, Member> members_;
  Epoch last_epoch_;
  size_t nodes_given_up_ = 0;  // that will not come
  std::map<Pair, LinkFigures> figures_;
  std::map<Pair, TimePoint> measured_at_;
  std::map<std::string, std::string> addresses_;  // of nodes with figures, by key
  uint64_t links_changes_ = 0;
  TimePoint started_at_{};
  std::map<Pair, BrokenPair> broken_;
  std::set<std::string> reached_;  // somebody opened a link to it
  std::vector<Pair> survey_;       // still to be measured
  std::map<Pair, UnreachablePair> unreachable_;
  std::optional<std::pair<Pair, TimePoint>> measuring_;
  TimePoint survey_since_{};
  size_t survey_size_ = 0;  // pairs since then
  CoordinatorCounters counters_;
  EventLog events_;
  std::vector<CoordinatorAction> actions_;
};

}  // namespace butterfly::cluster
