// Decides what every step computes: who runs, who waits, which pages they hold. A state machine without
// threads, clocks or models.
#pragma once
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "runtime/engine/chain.h"
#include "runtime/engine/engine_options.h"
#include "runtime/engine/fair_queue.h"
#include "runtime/engine/page_pool.h"
#include "runtime/engine/sequence.h"
#include "runtime/engine/stats.h"
#include "runtime/engine/step_times.h"

namespace butterfly::runtime {

// The rows [first_row, first_row + row_count) of a step belong to one request.
struct StepPart {
  RequestId id{};
  size_t first_position = 0;
  size_t row_count = 0;
  size_t logit_rows = 0;   // rows of logits that come back for it
  size_t hidden_rows = 0;  // and hidden rows
  bool chooses = false;    // its last 1 + draft.size() rows of logits are for new tokens
  std::vector<int32_t> draft;
  bool ahead = false;  // its first token, too, is a guess: see Scheduler::is_void()
};

struct StepPlan {
  StepRequest request;
  std::vector<StepPart> parts;
  // Of a step that fills pages, which has no parts: whose rows these are, and the last position of each.
  struct Filled {
    RequestId id{};
    size_t last = 0;
  };
  std::vector<Filled> filled;
};

// What became of a part: the tokens chosen, right guesses first; and whether the request is over.
struct PartOutcome {
  RequestId id{};
  std::vector<int32_t> tokens;
  bool finished = false;
  bool deferred = false;  // its choice is made later: see Scheduler::choose()
};

// Texts that may begin with each other's pages.
struct TextRoot {
  uint64_t owner = 0;    // a client's; 0: everybody's
  uint32_t adapter = 0;  // what was added to the model
  friend bool operator==(const TextRoot&, const TextRoot&) = default;
};

struct SchedulerStats {
  uint64_t steps = 0, rows = 0, prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  uint64_t draft_tokens = 0, draft_accepted = 0, preemptions = 0, resets = 0;
  uint64_t ahead_steps = 0, ahead_void = 0;  // begun before the text in front of them was known; and in vain
  // Of rows that were computed before: how many, and through how many layers together.
  uint64_t again_rows = 0, again_row_layers = 0;
};

// Events are the functions that are not const; each leaves the state whole. Invariants: a request is waiting
// or running until it is over; a running one holds pages for all its computed positions; a page is written by
// one request only; the oldest running request always gets what it needs, so there is always one that
// advances.
//
// When pages run short the youngest running request gives up its place: it goes to the front of the queue and
// later reads its own log in again, which gives the same bits.
//
// Of one thread: the engine calls it with its mutex held.
class Scheduler {
 public:
  // Takes of `chain` how much there is. `options.context` 0: as much as fits.
  Scheduler(const ChainInfo& chain, const SchedulerOptions& options);

  // kQueueFull or kInvalidArgument, with both numbers.
  Status submit(Submission submission);
  // The request is over. Its rows in a step under way are ignored. False: not known.
  bool finish(RequestId id);

  // The next step; nothing when there is nothing to do, or enough is under way.
  std::optional<StepPlan> plan();
  // What the chain should predict before the next plan(), where it can; nothing: it should not. Its commands
  // are the chain's as those of a step are. Then predicted() says what came and how long it took.
  std::optional<DraftRequest> predictions();
  void predicted(const DraftRequest& request, std::span<const std::vector<int32_t>> drafts, Duration time);
  // Step `step`, the oldest under way, is done. Outcomes of unknown requests are ignored.
  void complete(uint64_t step, Duration time, std::vector<PartOutcome> outcomes);
  // Of the oldest step under way: whether a part of it began with a token that was not chosen after all.
  // Nothing is chosen from its logits then; its outcome is empty.
  bool is_void(RequestId id) const;
  // The oldest step under way is in vain altogether.
  bool oldest_is_void() const;
  // The choice that was deferred. Unknown requests are ignored.
  void choose(const PartOutcome& outcome);
  // The cache's contents are lost: a new epoch, in which every request reads its log again.
  uint64_t reset();
  // Steps under way are lost: a new epoch. What the cache has of the steps before may still be there: ask the
  // chain about claims(), then refill(), or forget(). Nothing is planned before.
  uint64_t halt();
  // The same for another chain, with as much as that one has. If that is not the same as before, nothing is
  // claimed. Requests that no longer fit stay, and are never run: see too_long().
  uint64_t move_to(const ChainInfo& chain);
  std::vector<RequestId> too_long() const;
  // Until it is set anew: of those that wait only this request may run. Nothing, or one that is over: all
  // may. After halt(), and with forget() behind it: others that run would go on.
  void run_alone(std::optional<RequestId> id) { alone_ = id && knows(*id) ? id : std::nullopt; }
  // Every page with computed positions.
  std::vector<PageClaim> claims() const;
  // This is left of claims(): the next steps compute what is missing, then all goes on.
  void refill(const std::vector<PageClaim>& claims, const CacheReport& report);
  // Nothing is left.
  void forget();
  bool refilling() const { return !fills_.empty(); }

  // ---- Beginnings of texts that come from elsewhere: scheduler_restore.cc ----

  // How many pages of this waiting text's beginning are here, and how many could be used if they were.
  struct Beginning {
    size_t here = 0, usable = 0;
  };
  Beginning beginning(RequestId id) const;
  // It waits for pages of its beginning, or no longer does. Unknown requests are ignored.
  void set_restoring(RequestId id, bool restoring);
  // A place for page `block` of a beginning of so many, behind `parent` (the text's beginning is found from
  // Sequence::root). Its contents have to be written, where they are new, before the next plan(). Held until
  // let_go(), so that the page behind it can follow. Nothing: others need the room.
  struct Adopted {
    PagePool::NodeId node{};
    uint32_t page = graph::kNoPage;
    // To be written; kNoPage: not.
    std::array<uint32_t, graph::kPageKinds> fresh{graph::kNoPage, graph::kNoPage, graph::kNoPage};
  };
  std::optional<Adopted> adopt(RequestId id, PagePool::NodeId parent, size_t block, size_t blocks,
                               uint32_t parts);
  std::optional<PagePool::NodeId> node_before(RequestId id, size_t block) const;
  void let_go(std::span<const Adopted> adopted);
  // The number that texts of this client are kept under.
  uint64_t owner_of(uint64_t client) const { return options_.share_prefixes ? 0 : client; }
  // Whose texts a published page begins (PagePool::Entry::owner).
  const TextRoot& root(uint64_t number) const { return roots_.at(number); }

  // Requests whose deadline has come; the caller finishes them.
  std::vector<RequestId> expired(TimePoint now) const;
  std::optional<TimePoint> next_deadline() const;

  bool knows(RequestId id) const { return sequences_.contains(id); }
  const Sequence& sequence(RequestId id) const { return *sequences_.at(id); }
  std::vector<RequestId> requests() const;
  size_t running() const { return running_.size(); }
  size_t waiting() const { return queue_.size(); }
  size_t waiting_tokens() const { return queue_.tokens(); }
  size_t in_flight() const { return under_way_.size(); }
  size_t context() const { return options_.context; }
  const PagePool& pages() const { return pool_; }
  const SchedulerStats& stats() const { return stats_; }
  // Of the requests with this adapter.
  RequestCounts counts(uint32_t adapter) const;
  uint64_t epoch() const { return epoch_; }
  // What is wrong with the books; empty: nothing. For tests: it walks over everything.
  std::string inconsistency() const;

 private:
  // Whose rows a step has. kAll: there are none in the background. kAlone: there is nobody else. Where both
  // have work they take turns.
  enum class Turn { kAll, kAlone, kForeground, kBackground };
  struct UnderWay {
    uint64_t step;
    StepMix mix;
    Turn turn = Turn::kAll;
    size_t fill_rows = 0;
    bool beside_ahead = false;  // a step that was begun before its text was known ran at the same time
    struct Part {
      RequestId id;
      size_t rows;    // with guesses
      size_t drafts;  // guesses among them
      bool chooses;
      bool ahead = false;
      bool is_void = false;
    };
    std::vector<Part> parts;
  };
  struct Builder;  // of one plan
  // Positions [first, end) behind the beginning of a block of this request pass these layers: of one page; or
  // of many, where layers have a recurrent state, which then is in page `state`.
  struct Fill {
    RequestId id;
    uint32_t block, first, end;
    LayerSpan span;
    uint32_t state = graph::kNoPage;
  };

  bool is_like(const ChainInfo& chain) const;
  void fit_to(const ChainInfo& chain);
  void claim_states(std::vector<PageClaim>& claims, const std::unordered_map<uint32_t, Lineage>& ends) const;
  // Where a text's recurrent layers may go on: behind all that is certain, or behind the last whole block.
  struct StatePlace {
    size_t position;  // 0: nowhere
    uint32_t page;
  };
  StatePlace last_state(const Sequence& sequence) const;
  StatePlace last_block_state(const Sequence& sequence) const;
  void refill_pages(const std::vector<PageClaim>& claims, const CacheReport& report);
  void refill_texts(const std::vector<PageClaim>& claims, const CacheReport& report);
  void place_again(Sequence& sequence);
  bool is_own(const Sequence& sequence, size_t position) const;
  bool fill_is_over(const Fill& fill) const;
  bool fits_in(const StepPlan& plan, const Fill& fill, const std::set<uint32_t>& pages) const;
  std::optional<StepPlan> plan_fill();
  size_t fill_rows_max() const;
  void admit();
  bool make_way(size_t pages);
  Turn next_turn();
  bool others_wait() const;  // for a step under way
  static bool takes(Turn turn, const Sequence& sequence) {
    return turn == Turn::kAll || (turn != Turn::kForeground) == sequence.request.background;
  }
  FairQueue::Decision admit_one(Sequence& sequence);
  PagePool::NodeId root_of(const TextRoot& root);
  size_t match_prefix(const Sequence& sequence, std::vector<PagePool::Published>& matched) const;
  bool is_being_read(const Sequence& sequence, size_t pages) const;
  size_t pages_for(size_t positions) const;
  size_t pages_promised() const;
  bool hold_pages(Sequence& sequence, size_t positions, bool may_preempt, size_t guesses = 0);
  bool hold_now(Sequence& sequence, size_t positions, size_t guesses);
  void publish(Sequence& sequence);
  void preempt(Sequence& sequence);
  void give_back(Sequence& sequence);
  void guess(std::vector<Sequence*>& streams);
  size_t guess_room(size_t streams) const;
  size_t guesses_max(const Sequence& stream, size_t room) const;
  std::vector<Sequence*> predictable();
  bool hold_full(Sequence& sequence, size_t positions);
  // Steps for stages that would be idle: scheduler_ahead.cc.
  bool may_run_ahead(const Sequence& sequence) const;
  void run_ahead(Builder& builder);
  bool ahead_pays() const;
  bool rather_ahead(const Sequence& sequence, size_t rows, std::span<const int32_t> text) const;
  void measure_ahead(const UnderWay& done, Duration time);
  void settle_ahead(Sequence& sequence, const PartOutcome& outcome, size_t drafts);
  void drop_ahead(Sequence& sequence);
  // Pages of the other kinds: scheduler_sides.cc.
  size_t first_in_window(size_t position) const;
  void place_side(Sequence& sequence, graph::PageKind kind, size_t block, uint32_t page);
  void release_side(Sequence& sequence, graph::PageKind kind, size_t block);
  bool hold_side(Sequence& sequence, graph::PageKind kind, size_t block);
  bool hold_sides(Sequence& sequence, size_t positions, size_t guesses);
  size_t held_positions(const Sequence& sequence, size_t wanted) const;
  bool wants_snapshot(const Sequence& sequence, size_t block) const;
  void cut_to_sides(std::vector<PagePool::Published>& matched) const;
  void place_matched_sides(Sequence& sequence);
  size_t window_pages_of(size_t positions) const;
  size_t window_pages_promised() const;
  void publish_side(Sequence& sequence, graph::PageKind kind, size_t block);
  void trim_sides(Sequence& sequence);
  void give_back_sides(Sequence& sequence);
  std::optional<double> step_seconds_max(size_t streams) const;
  bool waits_for_burst(const std::vector<Sequence*>& streams) const;
  size_t prompt_rows(const Builder& builder, Turn turn) const;
  void read_prompts(Builder& builder, Turn turn, size_t budget, size_t sequences_max);

  // Numbered, the first one is everybody's. As many as there are API keys, times the adapters.
  std::vector<TextRoot> roots_ = {{}};
  const SchedulerOptions wanted_;
  size_t page_positions_ = 0;
  size_t steps_max_ = 1;
  ChainInfo chain_;
  SchedulerOptions options_;  // as much of it as the chain has
  PagePool pool_;
  FairQueue queue_;
  std::unordered_map<RequestId, std::unique_ptr<Sequence>> sequences_;
  std::vector<Sequence*> running_;  // oldest first
  std::optional<RequestId> alone_;
  std::vector<uint32_t> free_slots_;
  std::vector<KvCommand> commands_;  // for the next step
  std::vector<UnderWay> under_way_;  // oldest first
  std::deque<Fill> fills_;           // before anything else
  // Pages and first layers that are under way, since texts share pages; states with all their layers.
  std::set<std::pair<uint32_t, uint32_t>> filled_;
  std::set<std::tuple<uint32_t, uint32_t, uint32_t>> filled_states_;
  double fill_row_seconds_ = 0;  // of the last one; 0: not known
  bool halted_ = false;
  // Seconds of steps that the background may have, as a part of what others had since; below 0: it had more,
  // or they came while its step was under way and waited for it.
  double background_credit_ = 0;
  StepTimes times_;
  // Whether steps ahead are worth it, as measured: their stages may share a machine, or its memory, with
  // those that compute what is certain.
  GuessBudget ahead_budget_;
  double ahead_gain_ = 0;      // in steps, since it last learned
  bool ahead_failed_ = false;  // and some of it in vain: not again before it is known what that has cost
  size_t ahead_unbroken_ = 0;  // steps since one ran without
  SchedulerStats stats_;
  std::map<uint32_t, RequestCounts> counts_;  // by adapter: what is counted since the start
  uint64_t epoch_ = 1;
  uint64_t next_step_ = 1;
};

}  // namespace butterfly::runtime
