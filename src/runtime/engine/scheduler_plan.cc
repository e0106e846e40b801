// The scheduler's choice of the next step.
#include <algorithm>

#include "base/check.h"
#include "base/checked.h"
#include "runtime/engine/scheduler.h"
#include "runtime/engine/step_builder.h"

namespace butterfly::runtime {
namespace {

constexpr size_t kFirstPromptRows = 32;  // before it is known what a row takes
constexpr size_t kRowsLeast = 4;         // beside streams
// Rows of a prompt in one step of several, at least: a chain reads a prompt in many pieces, so that all its
// stages work, but products of fewer rows are slower.
constexpr size_t kPieceRows = 64;
// Matrix units work on tiles of 16 rows and take nearly as long for a part of one: 16 rows of a 1.1 B model
// in Q4_0 took 65 ms, 20 took 114 ms, 32 took 122 ms. So steps end with a tile. It also keeps the shapes of
// steps few.
constexpr size_t kTile = 16;
// The first streams of a burst may wait so much longer than stall_max times their own pace.
constexpr double kStallOfBurst = 1.25;
// Requests that come together are read in together, if that takes no longer; those that have their first
// token by then wait for the others, so many steps at most.
constexpr double kBurstSeconds = 4;
constexpr size_t kHeldMax = 12;
constexpr double kBackgroundSeconds = 0.05;  // of a step in the background, before it is known what one takes
constexpr uint64_t kPromptRefresh = 64;      // steps after which the time of streams alone is measured again,
constexpr uint64_t kDraftRefresh = 64;       // while prompts are read, while guesses are made

}  // namespace

size_t Scheduler::pages_for(size_t positions) const { return ceil_div(positions, page_positions_); }

// Pages that running requests still need to read what is in their logs.
size_t Scheduler::pages_promised() const {
  size_t promised = 0;
  for (const Sequence* sequence : running_) {
    const size_t needed = pages_for(sequence->tokens.size());
    if (needed > sequence->pages.size()) promised += needed - sequence->pages.size();
  }
  return promised;
}

// Published pages that hold the beginning of the log; at least its last position is left to compute, since
// its logits are wanted, and everything whose output is wanted.
size_t Scheduler::match_prefix(const Sequence& sequence, std::vector<PagePool::Published>& matched) const {
  matched.clear();
  if (!options_.reuse_prefix || !sequence.request.reuse_prefix) return 0;
  const size_t usable = std::min(sequence.tokens.size() - 1, sequence.outputs_from) / page_positions_;
  const std::span<const int32_t> tokens(sequence.tokens);
  PagePool::NodeId node = sequence.root;
  while (matched.size() < usable) {
    const auto found = pool_.find(node, tokens.subspan(matched.size() * page_positions_, page_positions_));
    if (!found) break;
    matched.push_back(*found);
    node = found->node;
  }
  cut_to_sides(matched);
  return usable;
}

// True if a running request is about to compute the page behind the first `pages` of this log.
bool Scheduler::is_being_read(const Sequence& sequence, size_t pages) const {
  const size_t end = (pages + 1) * page_positions_;
  return std::ranges::any_of(running_, [&](const Sequence* other) {
    return other->computed + 1 < other->tokens.size() && other->computed < end &&
           other->tokens.size() >= end && other->request.reuse_prefix && other->root == sequence.root &&
           std::equal(other->tokens.begin(), other->tokens.begin() + static_cast<ptrdiff_t>(end),
                      sequence.tokens.begin());
  });
}

FairQueue::Decision Scheduler::admit_one(Sequence& sequence) {
  if (sequence.restoring || (alone_ && sequence.id() != *alone_)) return FairQueue::Decision::kSkip;
  if (free_slots_.empty() && (sequence.request.background || !make_way(0))) return FairQueue::Decision::kStop;
  std::vector<PagePool::Published> matched;
  const size_t usable = match_prefix(sequence, matched);
  // What another one is reading need not be read twice: wait until it has. That one advances, or loses its
  // place.
  if (matched.size() < usable && is_being_read(sequence, matched.size())) return FairQueue::Decision::kSkip;
  size_t needed = pages_for(sequence.tokens.size());
  for (const auto& page : matched) needed -= pool_.users(page.page) > 0;
  // A page for each running text besides, so that it is not sent away again at once.
  const auto lacks_pages = [&] {
    return !running_.empty() && pages_promised() + needed + running_.size() > pool_.available();
  };
  while (lacks_pages() && !sequence.request.background && make_way(needed)) {
  }
  if (lacks_pages()) return FairQueue::Decision::kStop;
  if (!running_.empty() && chain_.window_pages > 0 &&
      window_pages_promised() + window_pages_of(sequence.tokens.size()) >
          pool_.side(graph::PageKind::kWindow).available())
    return FairQueue::Decision::kStop;

  sequence.slot = free_slots_.back();
  free_slots_.pop_back();
  commands_.push_back({KvCommand::Kind::kForget, *sequence.slot});
  for (const auto& [page, node] : matched) {
    pool_.add_user(page);
    commands_.push_back(
        {KvCommand::Kind::kPlace, *sequence.slot, static_cast<uint32_t>(sequence.pages.size()), page});
    sequence.pages.push_back(page);
    sequence.nodes.push_back(node);
  }
  place_matched_sides(sequence);
  sequence.computed = sequence.planned = matched.size() * page_positions_;
  if (!sequence.began) {
    sequence.began = true;
    sequence.cached_tokens = sequence.computed;
    stats_.prompt_tokens += sequence.prompt_size;
    stats_.cached_tokens += sequence.computed;
    RequestCounts& counts = counts_[sequence.request.adapter];
    counts.prompt_tokens += sequence.prompt_size;
    counts.cached_tokens += sequence.computed;
  }
  queue_.charge(sequence.request.client, sequence.remaining());
  running_.insert(std::ranges::upper_bound(running_, sequence.id(), {}, &Sequence::id), &sequence);
  return FairQueue::Decision::kTake;
}

// The youngest in the background gives up its place, if there is one. What it has read stays as long as its
// pages are not needed. `pages`: only if it has some.
bool Scheduler::make_way(size_t pages) {
  const auto victim = std::find_if(running_.rbegin(), running_.rend(), [&](const Sequence* other) {
    return other->request.background && other->in_flight == 0 && (pages == 0 || !other->pages.empty());
  });
  if (victim == running_.rend()) return false;
  preempt(**victim);
  return true;
}

bool Scheduler::others_wait() const {
  return std::ranges::any_of(sequences_, [](const auto& of) {
    return !of.second->request.background && of.second->in_flight == 0 && of.second->remaining() > 0;
  });
}

// Alone, everybody may have every step. Together, those in the background get steps of their own, when the
// others have had enough since the last one.
Scheduler::Turn Scheduler::next_turn() {
  bool foreground = false, background = false;
  for (const Sequence* sequence : running_)
    if (sequence->remaining() > 0) (sequence->request.background ? background : foreground) = true;
  if (!background) return Turn::kAll;
  if (!foreground) {
    background_credit_ = std::min(background_credit_, 0.0);
    return Turn::kAlone;
  }
  return background_credit_ > 0 ? Turn::kBackground : Turn::kForeground;
}

void Scheduler::admit() {
  queue_.offer([this](RequestId id) { return admit_one(*sequences_.at(id)); });
}

// As far as pages are to be had without taking anybody's. The last `guesses` positions may be wrong.
bool Scheduler::hold_now(Sequence& sequence, size_t positions, size_t guesses) {
  return hold_full(sequence, positions) && hold_sides(sequence, positions, guesses);
}

bool Scheduler::hold_full(Sequence& sequence, size_t positions) {
  while (sequence.pages.size() < pages_for(positions)) {
    const auto page = pool_.allocate();
    if (!page) return false;
    commands_.push_back(
        {KvCommand::Kind::kPlace, *sequence.slot, static_cast<uint32_t>(sequence.pages.size()), *page});
    sequence.pages.push_back(*page);
  }
  return true;
}

bool Scheduler::hold_pages(Sequence& sequence, size_t positions, bool may_preempt, size_t guesses) {
  while (!hold_now(sequence, positions, guesses)) {
    if (!may_preempt) return false;
    if (!sequence.request.background && make_way(1)) continue;
    const auto victim = std::find_if(running_.rbegin(), running_.rend(),
                                     [](const Sequence* other) { return other->in_flight == 0; });
    if (*victim == &sequence && !under_way_.empty())
      return false;  // others are under way: their pages may return
    const bool own = *victim == &sequence;
    preempt(**victim);
    if (own) return false;
  }
  return true;
}

void Scheduler::publish(Sequence& sequence) {
  if (!options_.reuse_prefix || !sequence.request.reuse_prefix) return;
  const std::span<const int32_t> tokens(sequence.tokens);
  while ((sequence.nodes.size() + 1) * page_positions_ <= sequence.computed) {
    const size_t block = sequence.nodes.size();
    const uint32_t own = sequence.pages[block];
    const auto published = pool_.publish(block == 0 ? sequence.root : sequence.nodes.back(),
                                         tokens.subspan(block * page_positions_, page_positions_), own);
    if (published.page != own) {  // equal bits: one copy is enough
      pool_.add_user(published.page);
      pool_.release(own);
      sequence.pages[block] = published.page;
      commands_.push_back(
          {KvCommand::Kind::kPlace, *sequence.slot, static_cast<uint32_t>(block), published.page});
    }
    sequence.nodes.push_back(published.node);
    publish_side(sequence, graph::PageKind::kWindow, block);
  }
}

// Guessed rows that fit into a step of so many streams.
size_t Scheduler::guess_room(size_t streams) const {
  return std::min(options_.rows_max - streams, kTile - streams % kTile);
}

size_t Scheduler::guesses_max(const Sequence& stream, size_t room) const {
  if (!stream.request.speculate) return 0;
  return std::min({options_.draft_max, room,
                   options_.context - std::min(options_.context, stream.tokens.size()),
                   stream.request.tokens_max - stream.generated() - 1});
}

void Scheduler::guess(std::vector<Sequence*>& streams) {
  const bool allowed = options_.speculate && !times_.is_stale(streams.size(), kDraftRefresh);
  const size_t room = guess_room(streams.size());
  size_t before = 0;
  std::vector<double> costs;
  for (Sequence* stream : streams) {
    const size_t most = allowed ? guesses_max(*stream, room - before) : 0;
    costs.clear();
    for (size_t rows = 1; rows <= most; ++rows)
      costs.push_back(times_.draft_tokens(streams.size(), before, rows));
    stream->drafter.propose(stream->tokens, costs, stream->draft, stream->predicted);
    while (!stream->draft.empty() &&
           !hold_pages(*stream, stream->tokens.size() + stream->draft.size(), false, stream->draft.size()))
      stream->draft.pop_back();
    if (stream->draft.empty()) stream->predict_cost = 0;
    before += stream->draft.size();
  }
}

// The streams of the next step, if it will have nothing else.
std::vector<Sequence*> Scheduler::predictable() {
  std::vector<Sequence*> streams;
  if (!chain_.predicts || !options_.speculate || options_.predict_always == size_t{0} || halted_ ||
      refilling() || !under_way_.empty() || (queue_.size() > 0 && !free_slots_.empty()))
    return streams;
  const bool foreground =
      std::ranges::any_of(running_, [](const Sequence* s) { return !s->request.background; });
  for (Sequence* sequence : running_) {
    if (sequence->remaining() == 0 || (foreground && sequence->request.background)) continue;
    if (!sequence->is_stream()) return {};
    streams.push_back(sequence);
  }
  if (times_.is_stale(streams.size(), kDraftRefresh)) streams.clear();
  return streams;
}

std::optional<DraftRequest> Scheduler::predictions() {
  const std::vector<Sequence*> streams = predictable();
  DraftRequest request{.epoch = epoch_, .commands = {}, .asks = {}};
  size_t room = streams.empty() ? 0 : guess_room(streams.size());
  std::vector<double> costs, predicted;
  for (Sequence* stream : streams) {
    const size_t most = guesses_max(*stream, room);
    if (most == 0 || stream->choice_pending || !stream->predicted.empty()) continue;
    costs.clear();
    predicted.clear();
    for (size_t rows = 1; rows <= most; ++rows) {
      costs.push_back(times_.draft_tokens(streams.size(), 0, rows));
      predicted.push_back(costs.back() + times_.predict_tokens(streams.size(), rows));
    }
    size_t count = options_.predict_always ? std::min(*options_.predict_always, most)
                                           : stream->drafter.wish(stream->tokens, costs, predicted);
    // The token itself has a position here too, and the last one that is predicted has none.
    const size_t position = stream->tokens.size() - 1;
    while (count > 0 && !hold_full(*stream, position + count)) --count;
    if (count == 0) continue;
    request.asks.push_back({*stream->slot, static_cast<uint32_t>(position), stream->tokens.back(),
                            static_cast<uint32_t>(count)});
    room -= count;
  }
  if (request.asks.empty()) return std::nullopt;
  request.commands = std::exchange(commands_, {});
  return request;
}

void Scheduler::predicted(const DraftRequest& request, std::span<const std::vector<int32_t>> drafts,
                          Duration time) {
  if (request.epoch != epoch_) return;
  size_t longest = 0;
  for (const std::vector<int32_t>& draft : drafts) longest = std::max(longest, draft.size());
  times_.add_prediction(longest, time);
  for (size_t i = 0; i < std::min(drafts.size(), request.asks.size()); ++i)
    for (Sequence* sequence : running_)
      if (sequence->slot == request.asks[i].sequence &&
          sequence->tokens.size() == request.asks[i].position + 1 && sequence->in_flight == 0) {
        sequence->predicted = drafts[i];
        sequence->predict_cost = times_.predict_tokens(request.asks.size(), drafts[i].size());
      }
}

// How long a step with prompts beside so many streams may take. Those whose prompts are read will be streams
// soon, and steps will take longer then anyway: to hold a burst's first streams to the pace of a stream alone
// would read the other prompts in pieces too small to be fast. Nothing if it is not known.
std::optional<double> Scheduler::step_seconds_max(size_t streams) const {
  const auto alone = times_.stream_seconds(streams);
  if (!alone) return std::nullopt;
  const auto generating =
      std::ranges::count_if(running_, [](const Sequence* s) { return s->request.generates; });
  const size_t soon = ceil_div(static_cast<size_t>(generating), steps_max_);
  const double then = std::max(*alone, times_.stream_seconds(std::max(streams, soon)).value_or(0));
  return std::min(options_.stall_max * then, kStallOfBurst * options_.stall_max * *alone);
}

// True if all these streams have only just begun, and what came with them is soon read: beside streams
// prompts are read at half the speed or less, and all of them would be the later for it.
bool Scheduler::waits_for_burst(const std::vector<Sequence*>& streams) const {
  const double row = times_.prompt_row_seconds(false);
  if (steps_max_ > 1 || row <= 0) return false;
  size_t unread = 0;
  for (const Sequence* sequence : running_)
    if (!sequence->is_stream()) unread += sequence->remaining();
  return static_cast<double>(unread) * row <= kBurstSeconds &&
         std::ranges::all_of(streams,
                             [](const Sequence* s) { return s->generated() == 1 && s->held < kHeldMax; });
}

// How many prompt rows to add to the streams of this step.
size_t Scheduler::prompt_rows(const Builder& builder, Turn turn) const {
  const size_t streams = builder.under_way.mix.streams;
  const size_t room = options_.rows_max - builder.rows();
  // Streams in other steps under way: their next ones come behind this one.
  size_t behind = 0, unread = 0;
  for (const Sequence* sequence : running_) {
    behind += sequence->request.generates && sequence->remaining() == 0;
    if (!sequence->is_stream()) unread += sequence->remaining();
  }
  if (streams > 0) behind = 0;
  const double row = times_.prompt_row_seconds(streams + behind > 0);
  double rows = kFirstPromptRows;
  if (streams > 0 && times_.is_stale(streams, kPromptRefresh)) return 0;
  const auto seconds = streams + behind > 0 ? step_seconds_max(streams + behind) : std::nullopt;
  if (seconds) {
    if (row > 0) rows = std::max(0.0, *seconds - *times_.stream_seconds(streams + behind)) / row;
  } else if (row > 0) {
    rows = std::chrono::duration<double>(options_.prompt_step_time).count() / row;
  }
  // Others wait for it.
  if (turn == Turn::kBackground && row > 0)
    rows = std::min(rows, times_.stream_seconds(1).value_or(kBackgroundSeconds) / row);
  if (steps_max_ > 1 && streams == 0)
    rows = std::min(rows, static_cast<double>(std::max(kPieceRows, unread / (2 * steps_max_))));
  size_t total = streams + static_cast<size_t>(std::min(rows, 1e6));
  if (total > kTile) total -= total % kTile;
  const size_t least = streams == 0      ? kFirstPromptRows
                       : streams < kTile ? kRowsLeast
                                         : kTile - streams % kTile;
  return std::min(std::max(total, streams + least) - streams, room);
}

// Half of the budget for the oldest, so that it ends; the rest for those that need least, so that short
// prompts do not wait for long ones.
void Scheduler::read_prompts(Builder& builder, Turn turn, size_t budget, size_t sequences_max) {
  std::vector<Sequence*> readers;
  for (Sequence* sequence : running_)
    if (sequence->remaining() > 0 && !sequence->is_stream() && takes(turn, *sequence))
      readers.push_back(sequence);
  if (readers.empty() || budget == 0) return;
  const auto rows_of = [&](const Sequence& sequence, size_t most) {
    size_t rows = std::min(sequence.remaining(), most);
    if (sequence.request.prompt_output == RowOutput::kLogits) rows = std::min(rows, options_.logit_rows_max);
    return rows;
  };
  std::stable_sort(readers.begin() + 1, readers.end(),
                   [](const Sequence* a, const Sequence* b) { return a->remaining() < b->remaining(); });
  std::vector<size_t> rows(readers.size(), 0);
  size_t left =
      budget - (rows[0] = rows_of(*readers[0], readers.size() == 1 ? budget : ceil_div(budget, size_t{2})));
  for (size_t i = 1; i < readers.size() && left > 0; ++i) left -= rows[i] = rows_of(*readers[i], left);
  rows[0] = rows_of(*readers[0], rows[0] + left);
  for (size_t i = 0; i < readers.size() && i < sequences_max; ++i) {
    Sequence& reader = *readers[i];
    // As many as pages can be had for; plan() has seen to the first.
    if (!hold_pages(reader, reader.planned + rows[i], false))
      rows[i] = held_positions(reader, reader.planned + rows[i]) - reader.planned;
    if (rows[i] > 0) builder.add(reader, rows[i]);
  }
}

std::optional<StepPlan> Scheduler::plan() {
  if (halted_ || under_way_.size() >= steps_max_) return std::nullopt;
  if (auto fill = plan_fill()) return fill;
  admit();
  // Pages for at least one more row of everyone, oldest first. The list shrinks from its end. Whoever has
  // rows under way drives nobody away: it advances as it is.
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.remaining() > 0 && !hold_pages(sequence, sequence.planned + 1, sequence.in_flight == 0) &&
        i < running_.size() && running_[i] != &sequence)
      --i;
  }
  const Turn turn = next_turn();
  Builder builder;
  builder.under_way.turn = turn;
  // With several steps under way each takes its share.
  const size_t share = ceil_div(running_.size(), steps_max_);
  std::vector<Sequence*> streams;
  bool reading = false;
  for (Sequence* sequence : running_) {
    if (sequence->remaining() == 0 || !takes(turn, *sequence) ||
        held_positions(*sequence, sequence->planned + 1) <= sequence->planned)
      continue;
    if (!sequence->is_stream()) {
      reading = true;
    } else if (streams.size() < share) {
      streams.push_back(sequence);
    }
  }
  if (reading && !streams.empty() && waits_for_burst(streams)) {
    for (Sequence* stream : streams) ++stream->held;
    streams.clear();
  }
  if (!reading) guess(streams);
  for (Sequence* sequence : running_) sequence->predicted.clear();  // of this step or of none
  for (Sequence* stream : streams) builder.add(*stream, 1);
  if (reading && streams.size() < share)
    read_prompts(builder, turn, prompt_rows(builder, turn), share - streams.size());
  if (builder.plan.parts.empty()) run_ahead(builder);
  // The background cannot go on: its turn is over.
  if (builder.plan.parts.empty() && turn == Turn::kBackground) {
    background_credit_ = 0;
    return plan();
  }
  if (builder.plan.parts.empty()) return std::nullopt;
  builder.sort_by_adapter();

  stats_.again_rows += builder.again_rows;
  stats_.again_row_layers += builder.again_rows * chain_.layers;
  builder.plan.request.epoch = epoch_;
  builder.plan.request.step = builder.under_way.step = next_step_++;
  builder.plan.request.commands = std::exchange(commands_, {});
  ++stats_.steps;
  stats_.rows += builder.rows();
  const bool ahead = builder.plan.parts.front().ahead;
  for (UnderWay& step : under_way_) {
    const bool other_ahead = std::ranges::any_of(step.parts, &UnderWay::Part::ahead);
    step.beside_ahead = step.beside_ahead || ahead;
    builder.under_way.beside_ahead = builder.under_way.beside_ahead || other_ahead;
  }
  under_way_.push_back(std::move(builder.under_way));
  return std::move(builder.plan);
}

}  // namespace butterfly::runtime
