// Who is in the cluster, who is alive, and which plan holds: a pure state machine. Time, links, planning and
// the engine are its shell's business; see README.md for how the parts play together.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/member/control_message.h"
#include "cluster/member/event_log.h"
#include "cluster/member/health.h"
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
  // The first plan waits for so many nodes, but not longer than this.
  size_t nodes_wanted = 1;
  Duration nodes_wait = std::chrono::seconds(10);
  Duration settle = std::chrono::milliseconds(300);  // after a join, for others that come with it
  bool measure_links = true;
  Duration measure_wait = std::chrono::seconds(5);  // for one link; a plan waits for all, at most as long
  size_t measure_peers = 8;                         // per node that joins, beside the coordinator's own
  Duration figures_age = std::chrono::hours(1);     // then a node that comes back is measured again
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
  size_t events_max = 1000;
  size_t links_max = 1024;  // open at once, joined or not
};

enum class NodeState : uint8_t { kUp, kSuspect, kDead, kLeft, kRemoved };
std::string_view node_state_name(NodeState state);

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
  double rows_per_s = 0;     // worked on, over the last seconds
  double clock_ahead_s = 0;  // of the coordinator's, when it joined
  // After failures.
  uint32_t failures = 0;
  TimePoint failed_at{};
  TimePoint held_until{};
  bool held_firmly = false;  // also when the model does not fit without it
  std::string last_failure = {};
  // Peers it had trouble with in the last while: who has trouble with many is the trouble.
  std::map<std::string, TimePoint> troubles = {};

  bool here() const { return state == NodeState::kUp || state == NodeState::kSuspect; }
};

// ---- What the shell is asked to do. In order; none of them may block the caller of the next event. ----

struct SendToWorker {
  LinkNumber link = 0;
  ToWorker message = {};
};
// Later events of this link are ignored, so reporting its end is allowed but not needed.
struct CloseLink {
  LinkNumber link = 0;
  std::string why = {};
};
// Answer with planned().
struct MakePlan {
  PlanQuestion question = {};
};
// Finish the step that runs, begin no other, and answer with steps_paused(next). If the change is given up
// before that, ServeSteps follows with the epoch that was paused.
struct PauseSteps {
  Epoch epoch = 0;
  Epoch next = 0;
};
// The epoch is over, lost or replaced: what is on its way will not come back, and the stages' caches are
// gone. No answer.
struct HaltSteps {
  Epoch epoch = 0;
  std::string why = {};
};
// All stages run: begin, or go on after a pause. The first stage takes the steps, the last one sends results.
// Answer with steps_connected() or steps_failed() when it begins.
struct ServeSteps {
  Epoch epoch = 0;
  Placement placement = {};
  std::vector<std::string> addresses = {};  // of the stages' first members, in order
};
using CoordinatorAction = std::variant<SendToWorker, CloseLink, MakePlan, PauseSteps, HaltSteps, ServeSteps>;

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

enum class ChangePhase : uint8_t { kPlanning, kPreparing, kPausing, kLoading, kStarting };
std::string_view change_phase_name(ChangePhase phase);

// Not thread-safe: the shell feeds events from one thread, or under one lock, in the order they happen, and
// carries out take_actions() after each. Never blocks, never throws for what a peer sent.
class Coordinator {
 public:
  Coordinator(CoordinatorConfig config, TimePoint now);

  // ---- Events ----
  void set_model(ModelTask model, TimePoint now);  // plans follow; an empty id: none
  void link_opened(LinkNumber link, const NodeId& peer, TimePoint now);
  void link_closed(LinkNumber link, std::string_view why, TimePoint now);
  void received(LinkNumber link, const ToCoordinator& message, TimePoint now);
  // What came over the link is no message: decode_to_coordinator() said so.
  void received_garbage(LinkNumber link, std::string_view why, TimePoint now);
  void planned(Epoch epoch, Result<Placement> placement, TimePoint now);
  void steps_paused(Epoch next, TimePoint now);
  // The engine has the chain of this epoch: from now on it is served, and not before.
  void steps_connected(Epoch epoch, TimePoint now);
  // The engine cannot go on in this epoch; `peer` is to blame if it is known.
  void steps_failed(Epoch epoch, const NodeId& peer, std::string_view why, TimePoint now);
  // By name or key. Acts at once. kNotFound; kInvalidArgument for this process's own node or a name that two
  // nodes have.
  Status remove_node(std::string_view name_or_key, TimePoint now);
  // The process of a node that this machine started has ended: how, and what is done about it. With
  // `for_good` the first plan does not wait for it either.
  void process_ended(const std::string& name, const std::string& how, const std::string& what_follows,
                     bool for_good, TimePoint now);
  // Keys that may never join, as the identity store knows them. All members are told.
  void forbid(const std::string& key);
  void permit(const std::string& key) { removed_.erase(key); }
  // Call about every 50 ms, and after a pause of the process as soon as it goes on.
  void tick(TimePoint now);

  std::vector<CoordinatorAction> take_actions();

  // ---- State, for status pages, tests and the shell ----
  const CoordinatorConfig& config() const { return config_; }
  const std::map<std::string, Member>& members() const { return members_; }  // by key
  const ModelTask& model() const { return model_; }
  // The plan that holds. Its stages run, but the engine may still be about to connect to them: connected().
  Epoch serving_epoch() const { return serving_ ? serving_->epoch : 0; }
  bool connected() const { return serving_ && serving_->connected; }
  const Placement* serving_placement() const { return serving_ ? &serving_->placement : nullptr; }
  TimePoint serving_since() const { return serving_ ? serving_->since : TimePoint{}; }
  std::optional<ChangePhase> change_phase() const;
  const Placement* change_placement() const;  // from kPreparing on
  // Why nothing is served; empty while something is.
  std::string why_not_serving() const;
  const std::string& last_failure() const { return last_failure_; }
  const std::map<std::pair<std::string, std::string>, LinkFigures>& links() const { return figures_; }
  // The question a plan would answer now.
  PlanQuestion question(TimePoint now, bool with_held = true) const;
  const CoordinatorCounters& counters() const { return counters_; }
  const EventLog& events() const { return events_; }

 private:
  struct OpenLink {
    NodeId peer;
    TimePoint opened_at{};
    bool joined = false;
  };
  struct Serving {
    Epoch epoch = 0;
    Placement placement;
    TimePoint since{};
    bool connected = false;
  };
  struct Change {
    Epoch epoch = 0;
    ChangePhase phase = ChangePhase::kPlanning;
    TimePoint began_at{};  // this phase
    bool with_held = false;
    std::set<std::string> asked;  // keys in the question
    Placement placement;
    std::set<std::string> waiting_for;  // keys whose report is due
  };
  // What went wrong between two nodes: neither is to blame alone.
  struct BrokenPair {
    uint32_t times = 0;
    TimePoint last{};
    bool unreachable = false;  // a link could not even be opened: once is enough
  };
  struct Pair {
    std::string from, to;
    bool operator==(const Pair&) const = default;
  };

  // coordinator.cc: links, joins, health
  void handle(Member& member, const Beat& message, TimePoint now);
  void handle(Member& member, const Prepared& message, TimePoint now);
  void handle(Member& member, const Ready& message, TimePoint now);
  void handle(Member& member, const Started& message, TimePoint now);
  void handle(Member& member, const Trouble& message, TimePoint now);
  void handle(Member& member, const LinkReport& message, TimePoint now);
  void handle(Member& member, const Leave& message, TimePoint now);
  void handle(Member& member, const Join& message, TimePoint now);
  void join(LinkNumber link, const Join& message, TimePoint now);
  struct Refusal {
    std::string text;  // empty: welcome
    bool forever = false;
  };
  Refusal why_refuse(const NodeId& peer, const Join& message, TimePoint now);
  bool make_room();
  void forgive(Duration gap);
  void refuse(LinkNumber link, std::string text, bool forever, TimePoint now);
  void close(LinkNumber link, std::string why);
  void check_links(TimePoint now);
  void check_health(TimePoint now);
  void lose(Member& member, NodeState state, EventKind kind, std::string why, TimePoint now);
  Member* member_of(LinkNumber link);
  Duration stall_limit(const Member& member) const;

  // placement_change.cc: plans and how they come about
  void want_plan(TimePoint at);
  void begin_change(bool with_held, TimePoint now);
  void cancel_change(TimePoint now);
  void no_plan(const Status& why, TimePoint now);
  Duration retry_delay() const;
  void begin_phase(ChangePhase phase, TimePoint now);
  void begin_loading(TimePoint now);
  void begin_starting(TimePoint now);
  void serve(TimePoint now);
  void halt(const std::string& why, TimePoint now);
  void reported(Member& member, Epoch epoch, ChangePhase phase, Errc code, const std::string& text,
                TimePoint now);
  void hold(Member& member, bool firmly, const std::string& why, TimePoint now);
  void check_change(TimePoint now);
  bool may_plan(TimePoint now) const;
  size_t nodes_here() const;
  size_t nodes_wanted() const;
  bool may_use(const Member& member, bool with_held, TimePoint now) const;
  std::vector<Assignment> assignments() const;
  Assignment assignment(size_t stage, size_t member) const;
  bool is_broken(const BrokenPair& pair, TimePoint now) const;
  void note_broken(const NodeId& from, const NodeId& to, bool unreachable, TimePoint now);
  void give_up_change(const std::string& why, const std::string& node, TimePoint now);
  void blame(const NodeId& reporter, const NodeId& peer, TimePoint now);
  void trouble(Epoch epoch, const NodeId& reporter, const NodeId& peer, const std::string& why,
               TimePoint now);

  // link_survey.cc: which link is measured next
  void survey(const Member& member, TimePoint now);
  void survey_pair(const Member& from, const Member& to, TimePoint now);
  void survey_chain(const Placement& placement, TimePoint now);
  void stop_survey(const NodeId& node);
  void forget_links(const std::string& key);
  std::optional<LinkFigures> estimate(const std::string& a, const std::string& b) const;
  bool survey_done(TimePoint now) const;
  void check_survey(TimePoint now);

  void send(const Member& member, ToWorker message);
  void note(TimePoint now, EventKind kind, const std::string& node, Epoch epoch, std::string text);

  const CoordinatorConfig config_;
  const TimePoint started_at_;
  ModelTask model_;
  TimePoint model_at_{};
  std::map<std::string, Member> members_;
  std::map<LinkNumber, OpenLink> links_;
  std::set<std::string> removed_;
  Epoch last_epoch_;
  std::optional<Serving> serving_;
  std::optional<Change> change_;
  std::optional<TimePoint> plan_at_;  // a plan is wanted, and not before then
  uint32_t attempts_ = 0;             // that failed since something was served for a while
  bool ever_served_ = false;
  size_t nodes_given_up_ = 0;  // that will not come
  std::string why_waiting_, last_failure_;
  std::map<std::pair<std::string, std::string>, LinkFigures> figures_;
  std::map<std::pair<std::string, std::string>, TimePoint> measured_at_;
  std::map<std::pair<std::string, std::string>, BrokenPair> broken_;
  std::vector<Pair> survey_;  // still to be measured
  std::optional<std::pair<Pair, TimePoint>> measuring_;
  TimePoint survey_since_{};
  TimePoint beat_at_{}, ticked_at_{};
  CoordinatorCounters counters_;
  EventLog events_;
  std::vector<CoordinatorAction> actions_;
};

}  // namespace butterfly::cluster
