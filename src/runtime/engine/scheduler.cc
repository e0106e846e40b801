#include "runtime/engine/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/checked.h"

namespace butterfly::runtime {
namespace {

SchedulerOptions fitted(SchedulerOptions options, const ChainInfo& chain) {
  const size_t positions = std::min(chain.context, chain.pages * chain.page_positions);
  options.context = options.context == 0 ? positions : std::min(options.context, positions);
  options.rows_max = options.rows_max == 0 ? chain.rows_max : std::min(options.rows_max, chain.rows_max);
  options.running_max = std::min({options.running_max, chain.sequences, options.rows_max});
  if (chain.state_pages > 0) options.draft_max = std::min(options.draft_max, graph::kGuessesMax);
  BF_CHECK(options.context > 0 && options.running_max > 0) << "a chain without room";
  return options;
}

}  // namespace

Scheduler::Scheduler(const ChainInfo& chain, const SchedulerOptions& options)
    : wanted_(options), pool_(chain.pages, chain.page_positions, chain.window_pages, chain.state_pages) {
  fit_to(chain);
}

// Pages and slots can stay as they are.
bool Scheduler::is_like(const ChainInfo& chain) const {
  return chain.pages == chain_.pages && chain.page_positions == chain_.page_positions &&
         chain.sequences == chain_.sequences && chain.rows_max == chain_.rows_max &&
         chain.context == chain_.context && chain.window_pages == chain_.window_pages &&
         chain.window == chain_.window && chain.state_pages == chain_.state_pages;
}

void Scheduler::fit_to(const ChainInfo& chain) {
  chain_ = chain;
  page_positions_ = chain.page_positions;
  steps_max_ = std::max<size_t>(1, chain.steps_max);
  options_ = fitted(wanted_, chain);
  free_slots_.clear();
  for (size_t i = options_.running_max; i > 0; --i) free_slots_.push_back(static_cast<uint32_t>(i - 1));
}

Status Scheduler::submit(Submission submission) {
  const size_t size = submission.prompt.size();
  if (size == 0) return {Errc::kInvalidArgument, "the prompt has no tokens"};
  if (size > options_.context)
    return {Errc::kInvalidArgument,
            fmt::format("the prompt has {} tokens, the context holds {}", size, options_.context)};
  // Those that start with the next step do not count: a burst that an idle engine has places for is no crowd.
  const size_t waiting_max = options_.waiting_max + free_slots_.size();
  if (queue_.size() >= waiting_max)
    return {Errc::kQueueFull,
            fmt::format("{} requests are waiting, at most {} may", queue_.size(), waiting_max)};
  // One that is alone may be larger than the bound, or it would never be served.
  if (queue_.size() > 0 && queue_.tokens() + size > options_.waiting_tokens_max)
    return {Errc::kQueueFull, fmt::format("{} tokens are waiting, {} more would pass the bound of {}",
                                          queue_.tokens(), size, options_.waiting_tokens_max)};
  BF_CHECK(!knows(submission.id)) << "request " << static_cast<uint64_t>(submission.id) << " twice";
  auto sequence = std::make_unique<Sequence>();
  sequence->tokens = std::move(submission.prompt);
  sequence->prompt_size = size;
  if (submission.prompt_output == RowOutput::kNone || submission.last_output_only)
    sequence->outputs_from = size - 1;
  for (const size_t mark : submission.marks)
    sequence->snapshots.push_back(std::min(mark, size - 1) / page_positions_ * page_positions_);
  sequence->snapshots.push_back((size - 1) / page_positions_ * page_positions_);
  std::ranges::sort(sequence->snapshots);
  sequence->root = root_of({owner_of(submission.client), submission.adapter});
  sequence->request = std::move(submission);
  const RequestId id = sequence->id();
  queue_.join(sequence->request.client, sequence->request.background);
  queue_.push_back(sequence->request.client, id, size);
  sequences_.emplace(id, std::move(sequence));
  return {};
}

// Where the published pages begin that such texts may use. How much of a prompt was there already shows in
// counts and times, so what one client sent could be guessed, word by word, by another that shared them.
PagePool::NodeId Scheduler::root_of(const TextRoot& root) {
  if (root == TextRoot{}) return PagePool::kRoot;
  const auto found = std::ranges::find(roots_, root);
  const auto number = static_cast<uint64_t>(found - roots_.begin());
  if (found == roots_.end()) roots_.push_back(root);
  return PagePool::root_of(number);
}

bool Scheduler::finish(RequestId id) {
  const auto it = sequences_.find(id);
  if (it == sequences_.end()) return false;
  Sequence& sequence = *it->second;
  const uint64_t client = sequence.request.client;
  if (sequence.slot) {
    give_back(sequence);
  } else {
    queue_.remove(client, id);
  }
  queue_.leave(client);
  sequences_.erase(it);
  if (alone_ == id) alone_.reset();
  return true;
}

void Scheduler::give_back(Sequence& sequence) {
  give_back_sides(sequence);
  while (!sequence.pages.empty()) {
    pool_.release(sequence.pages.back());
    sequence.pages.pop_back();
  }
  sequence.nodes.clear();
  sequence.computed = sequence.planned = 0;
  sequence.in_flight = 0;
  sequence.draft.clear();
  sequence.predicted.clear();
  sequence.assumed.clear();
  sequence.ahead = 0;
  free_slots_.push_back(*sequence.slot);
  sequence.slot.reset();
  std::erase(running_, &sequence);
}

void Scheduler::preempt(Sequence& sequence) {
  give_back(sequence);
  queue_.push_front(sequence.request.client, sequence.id(), sequence.tokens.size());
  ++stats_.preemptions;
}

void Scheduler::complete(uint64_t step, Duration time, std::vector<PartOutcome> outcomes) {
  BF_CHECK(!under_way_.empty() && under_way_.front().step == step)
      << "step " << step << " is not the oldest under way";
  const UnderWay done = std::move(under_way_.front());
  under_way_.erase(under_way_.begin());
  const bool ahead = std::ranges::any_of(done.parts, &UnderWay::Part::ahead);
  if (ahead) {
    // Of a step that began behind another one: its time is that of a stage.
  } else if (done.fill_rows > 0) {
    fill_row_seconds_ = std::chrono::duration<double>(time).count() / static_cast<double>(done.fill_rows);
  } else {
    if (!done.beside_ahead) times_.add(done.mix, time);
    const double seconds = std::chrono::duration<double>(time).count();
    if (done.turn == Turn::kForeground) background_credit_ += options_.background_share * seconds;
    if (done.turn == Turn::kBackground || (done.turn == Turn::kAlone && others_wait()))
      background_credit_ -= seconds;
  }
  size_t drafts_before = 0;
  for (const auto& [id, rows, drafts, chooses, began_ahead, is_void] : done.parts) {
    double cost =
        drafts == 0 || began_ahead ? 0 : times_.draft_tokens(done.mix.streams, drafts_before, drafts);
    drafts_before += drafts;
    const auto it = sequences_.find(id);
    if (it == sequences_.end() || it->second->in_flight == 0) continue;  // over, or begun again
    Sequence& sequence = *it->second;
    if (is_void) {
      --sequence.in_flight;
      continue;
    }
    const auto outcome = std::ranges::find(outcomes, id, &PartOutcome::id);
    BF_CHECK(outcome != outcomes.end()) << "no outcome for request " << static_cast<uint64_t>(id);
    const size_t accepted = outcome->tokens.empty() ? 0 : outcome->tokens.size() - 1;
    BF_CHECK(accepted <= drafts) << "more tokens than were asked for";
    if (drafts > 0) {
      if (!began_ahead) cost += std::exchange(sequence.predict_cost, 0);
      sequence.drafter.learn(drafts, accepted, cost);
      stats_.draft_tokens += drafts;
      stats_.draft_accepted += accepted;
    }
    sequence.state_seen = sequence.computed + rows - drafts;
    sequence.computed += rows - drafts + accepted;
    sequence.planned += accepted;
    if (chooses) sequence.draft.clear();
    --sequence.in_flight;
    if (chooses) settle_ahead(sequence, *outcome, drafts);
    sequence.tokens.insert(sequence.tokens.end(), outcome->tokens.begin(), outcome->tokens.end());
    sequence.outputs_from = std::max(sequence.outputs_from, sequence.computed);
    stats_.generated_tokens += outcome->tokens.size();
    counts_[sequence.request.adapter].generated_tokens += outcome->tokens.size();
    queue_.charge(sequence.request.client, outcome->tokens.size());
    publish(sequence);
    if (outcome->deferred && chooses) sequence.choice_pending = true;
    trim_sides(sequence);
    if (outcome->finished) finish(id);
  }
  measure_ahead(done, time);
}

void Scheduler::choose(const PartOutcome& outcome) {
  const auto it = sequences_.find(outcome.id);
  if (it == sequences_.end() || !it->second->choice_pending) return;
  Sequence& sequence = *it->second;
  sequence.choice_pending = false;
  sequence.tokens.insert(sequence.tokens.end(), outcome.tokens.begin(), outcome.tokens.end());
  stats_.generated_tokens += outcome.tokens.size();
  counts_[sequence.request.adapter].generated_tokens += outcome.tokens.size();
  queue_.charge(sequence.request.client, outcome.tokens.size());
  if (outcome.finished) finish(outcome.id);
}

RequestCounts Scheduler::counts(uint32_t adapter) const {
  const auto known = counts_.find(adapter);
  RequestCounts counts = known == counts_.end() ? RequestCounts() : known->second;
  for (const auto& [id, sequence] : sequences_)
    if (sequence->request.adapter == adapter) ++(sequence->slot ? counts.running : counts.waiting);
  return counts;
}

uint64_t Scheduler::reset() {
  const uint64_t epoch = halt();
  forget();
  return epoch;
}

uint64_t Scheduler::halt() {
  halted_ = true;
  under_way_.clear();
  commands_.clear();
  fills_.clear();
  filled_.clear();
  filled_states_.clear();
  ahead_gain_ = 0;
  ahead_failed_ = false;
  for (Sequence* sequence : running_) {
    sequence->planned = sequence->computed;
    sequence->state_end = sequence->state_seen;
    sequence->in_flight = 0;
    sequence->draft.clear();
    sequence->predicted.clear();
    sequence->assumed.clear();
    sequence->ahead = 0;
  }
  return ++epoch_;
}

void Scheduler::forget() {
  ++stats_.resets;
  halted_ = false;
  for (Sequence* sequence : running_)
    sequence->computed_before = std::max(sequence->computed_before, sequence->computed);
  while (!running_.empty()) preempt(*running_.back());  // youngest first, so that the oldest stands in front
  pool_.forget_all();
}

uint64_t Scheduler::move_to(const ChainInfo& chain) {
  const uint64_t epoch = halt();
  times_ = {};
  fill_row_seconds_ = 0;
  if (is_like(chain)) {
    steps_max_ = std::max<size_t>(1, chain.steps_max);
    chain_ = chain;
    return epoch;
  }
  forget();
  pool_ = PagePool(chain.pages, chain.page_positions, chain.window_pages, chain.state_pages);
  fit_to(chain);
  return epoch;
}

std::vector<RequestId> Scheduler::too_long() const {
  std::vector<RequestId> ids;
  for (const auto& [id, sequence] : sequences_)
    if (sequence->tokens.size() > options_.context) ids.push_back(id);
  std::ranges::sort(ids);
  return ids;
}

std::vector<RequestId> Scheduler::expired(TimePoint now) const {
  std::vector<RequestId> ids;
  for (const auto& [id, sequence] : sequences_)
    if (sequence->request.deadline && *sequence->request.deadline <= now) ids.push_back(id);
  std::ranges::sort(ids);
  return ids;
}

std::optional<TimePoint> Scheduler::next_deadline() const {
  std::optional<TimePoint> next;
  for (const auto& [id, sequence] : sequences_)
    if (const auto& deadline = sequence->request.deadline; deadline && (!next || *deadline < *next))
      next = deadline;
  return next;
}

std::vector<RequestId> Scheduler::requests() const {
  std::vector<RequestId> ids;
  for (const auto& [id, sequence] : sequences_) ids.push_back(id);
  std::ranges::sort(ids);
  return ids;
}

std::string Scheduler::inconsistency() const {
  for (const graph::PageKind kind : {graph::PageKind::kWindow, graph::PageKind::kState}) {
    std::map<uint32_t, size_t> held;
    for (const auto& [id, sequence] : sequences_)
      for (const uint32_t page : sequence->side(kind))
        if (page != graph::kNoPage) ++held[page];
    const SidePool& pool = pool_.side(kind);
    if (held.size() != pool.used())
      return fmt::format("{} pages of kind {} are held, {} are lent", held.size(), static_cast<int>(kind),
                         pool.used());
    for (const auto& [page, count] : held)
      if (pool.users(page) != count)
        return fmt::format("page {} of kind {} has {} holders, {} are counted", page, static_cast<int>(kind),
                           count, pool.users(page));
  }
  std::map<uint32_t, size_t> users;
  size_t waiting = 0;
  for (const auto& [id, sequence] : sequences_) {
    const Sequence& s = *sequence;
    const auto name = static_cast<uint64_t>(id);
    if (s.slot.has_value() != (std::ranges::find(running_, &s) != running_.end()))
      return fmt::format("request {} has a slot or runs, not both", name);
    waiting += !s.slot;
    for (const uint32_t page : s.pages) ++users[page];
    if (!s.slot && !s.pages.empty()) return fmt::format("request {} waits with pages", name);
    if (s.computed > s.pages.size() * page_positions_)
      return fmt::format("request {} has {} positions in {} pages", name, s.computed, s.pages.size());
    if (s.planned < s.computed || s.planned > s.tokens.size())
      return fmt::format("request {} plans {} of {} positions, {} are there", name, s.planned,
                         s.tokens.size(), s.computed);
    if (s.computed >= s.tokens.size() && !s.choice_pending)
      return fmt::format("request {} has nothing left to compute", name);
    if (s.nodes.size() * page_positions_ > s.computed)
      return fmt::format("request {} published what is not computed", name);
  }
  if (waiting != queue_.size())
    return fmt::format("{} requests wait, {} are in the queue", waiting, queue_.size());
  if (users.size() != pool_.used())
    return fmt::format("{} pages are held, {} are lent", users.size(), pool_.used());
  for (const auto& [page, count] : users)
    if (pool_.users(page) != count)
      return fmt::format("page {} has {} holders, {} are counted", page, count, pool_.users(page));
  if (running_.size() + free_slots_.size() != options_.running_max)
    return fmt::format("{} running and {} free slots of {}", running_.size(), free_slots_.size(),
                       options_.running_max);
  return {};
}

}  // namespace butterfly::runtime
