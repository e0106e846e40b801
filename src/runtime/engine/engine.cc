#include "runtime/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "base/log.h"
#include "base/thread_name.h"
#include "base/thread_priority.h"
#include "runtime/engine/adapter_table.h"
#include "runtime/engine/chain.h"
#include "runtime/engine/prefix_restore.h"
#include "runtime/engine/scheduler.h"
#include "runtime/engine/session.h"
#include "runtime/engine/suspects.h"

namespace butterfly::runtime {
namespace {

// Of a step, and of a reset. Longer than a stage may take without progress (two minutes, on machines that are
// that slow): health, which knows whose step it is, decides first.
constexpr Duration kStepTimeout = std::chrono::seconds(150);
constexpr size_t kFailuresMax = 5;                       // steps that fail one after the other
constexpr size_t kRefillsMax = 3;                        // chains lost one after the other while they refill
constexpr Duration kIdleWait = std::chrono::seconds(1);  // between looks at the clock while nothing happens
// Where every text of a step waits for its mask, those whose masks come first wait for the others as long as
// the step took, and at least so long, unless there is something else to compute. Where some need not wait,
// they wait for others a small part of their step's time, and only for masks that should come by then.
// Requests whose masks come later choose later, and the others go on.
constexpr Duration kMaskWait = std::chrono::milliseconds(2);
constexpr int kMaskWaitPart = 8;
// A text alone waits for the mask of a guess as long as a step takes, in which it would be computed anew.
constexpr Duration kGuessWait = std::chrono::microseconds(200), kGuessWaitMax = std::chrono::milliseconds(2);
constexpr Duration kLostWait = std::chrono::milliseconds(50);  // and while requests wait for a chain

// A request from submit() to its end.
struct Active {
  Active(Session&& s, std::shared_ptr<EventSink> to, TimePoint now)
      : session(std::move(s)), sink(std::move(to)), submitted(now) {}
  Session session;
  std::shared_ptr<EventSink> sink;
  TimePoint submitted;
  std::optional<TimePoint> began, first_token, last_token;
  size_t cached_tokens = 0, sent_tokens = 0, draft_tokens = 0, draft_accepted = 0;
  std::vector<float> logits;  // of a choice that waits for its mask
};

// Of the request's own text; guesses are not counted.
size_t last_position(const StepPart& part) {
  return part.first_position + part.row_count - part.draft.size() - 1;
}

// A request that is over, not yet told.
struct End {
  RequestId id;
  FinishReason reason;
  Status status;
};

}  // namespace

// The shell around the scheduler: one mutex, one thread. The mutex is held while the scheduler decides, never
// while a step computes, tokens are chosen or sinks are called. Actives are made by submit() and ended by the
// thread only, so the thread may use them without the mutex.
struct Engine::Impl {
  Impl(std::unique_ptr<Chain> s, const model::Tokenizer* t, const EngineOptions& options, Clock& c)
      : chain(std::move(s)),
        tokenizer(t),
        clock(c),
        on_chain_lost(options.on_chain_lost),
        chain_wait_max(options.chain_wait_max),
        adapters(options.adapters),
        scheduler(chain->info(), options.scheduler) {
    if (CachePages* pages = chain->cache_pages();
        pages != nullptr && options.prefix_store && options.scheduler.reuse_prefix)
      store = options.prefix_store(*pages);
    if (store != nullptr)
      restore = std::make_unique<PrefixRestore>(store, [this] {
        const std::lock_guard lock(mutex);
        changed.notify_one();
      });
  }

  Result<RequestId> submit(EngineRequest request, std::shared_ptr<EventSink> sink);
  Status check_adapter(const EngineRequest& request) const;
  std::optional<PrefixStore::Name> stored_root(const EngineRequest& request) const;
  void take_restored();
  void run();
  bool wait_for_work(std::vector<End>& ends, std::optional<StepPlan>& plan);
  void end_all(FinishReason reason, const Status& status);  // with the mutex
  void end_patience(TimePoint now);                         // with the mutex
  bool adopt_chain();
  void reset_chain(uint64_t epoch);
  void resume_chain();
  bool waits_for_chain(const Status& status);
  void tell(const End& end);
  void predict();
  void begin(const StepPlan& plan);
  void receive();
  struct UnderWay;
  void finish_step(const UnderWay& step, const StepResult& result, Duration time);
  void fail_step(const StepPlan& plan, const Status& status, bool was_under_way);
  std::optional<End> count_loss(const StepPlan* plan, const Status& status);  // with the mutex
  void send(Active& active, RequestId id, Session::Outcome& outcome, TimePoint now);
  enum class Choices { kNone, kSome, kAll };  // all that others wait for
  Choices choices_ready() const;
  bool choose_deferred();

  std::shared_ptr<Chain> chain;  // changed by the thread, with the mutex
  const model::Tokenizer* tokenizer;
  Clock& clock;
  const std::function<void(const Status&)> on_chain_lost;
  const Duration chain_wait_max;
  const std::shared_ptr<AdapterTable> adapters;

  mutable std::mutex mutex;
  std::condition_variable changed;  // for the thread: there is something to do
  std::condition_variable empty;    // for drain(): a request has ended
  Scheduler scheduler;
  std::unordered_map<RequestId, std::unique_ptr<Active>> active;
  std::vector<End> ends;
  size_t telling = 0;  // requests that are over, while their readers hear of it
  EngineStats stats;   // counters that the scheduler does not keep
  uint64_t next_id = 1;
  bool draining = false;
  bool stopping = false;
  std::shared_ptr<Chain> next_chain;    // to take the place of `chain`,
  bool next_after_loss = false;         // which was lost with steps under way
  std::optional<TimePoint> chain_lost;  // since when; then nothing is planned
  Status chain_lost_status;

  // The thread's own.
  struct UnderWay {
    StepPlan plan;
    std::vector<Active*> actives;  // of its parts
  };
  std::vector<UnderWay> under_way;                         // oldest first
  std::vector<RequestId> deferred;                         // their next tokens wait for masks
  std::chrono::steady_clock::time_point together_until{};  // and for each other, to go on in one step
  Suspects suspects;
  TimePoint step_began{};
  std::optional<TimePoint> chain_free;  // since when the chain waits for the engine
  size_t failures = 0;
  size_t refills_broken = 0;
  bool predicts = true;  // false: the chain failed at it
  std::thread thread;
  std::shared_ptr<PrefixStore> store;  // null: beginnings of texts end with the engine
  std::unique_ptr<PrefixRestore> restore;
  MaskWorker masks{[this] {
    const std::lock_guard lock(mutex);
    changed.notify_one();
  }};
};

Status Engine::Impl::check_adapter(const EngineRequest& request) const {
  if (request.adapter == nullptr) return {};
  if (adapters == nullptr)
    return {Errc::kUnsupported, "requests of this engine cannot name adapters: its model is on other nodes"};
  if (adapters->find(request.adapter->number) != request.adapter)
    return {Errc::kInvalidArgument, "the request names another model's adapter"};
  return {};
}

// Where the request's text begins in the store, if it can be there.
std::optional<PrefixStore::Name> Engine::Impl::stored_root(const EngineRequest& request) const {
  if (store == nullptr || !request.reuse_prefix) return std::nullopt;
  const uint64_t owner = scheduler.owner_of(request.client);
  if (request.adapter == nullptr) return store->root(owner);
  if (request.adapter->identity.empty()) return std::nullopt;
  return store->root(owner, request.adapter->identity);
}

Result<RequestId> Engine::Impl::submit(EngineRequest request, std::shared_ptr<EventSink> sink) {
  BF_CHECK(sink != nullptr) << "a request without a sink";
  if (Status status = check_adapter(request); !status) return status;
  try {
    ChainInfo info;
    size_t context;
    {
      std::lock_guard lock(mutex);
      info = chain->info();
      context = scheduler.context();
    }
    // Without the mutex: a long prompt is hashed.
    const auto root = stored_root(request);
    const size_t stored = root ? store->usable(*root, request.prompt, info.page_positions,
                                               request.prompt.size() / info.page_positions, info.window)
                               : 0;
    if (request.prompt.size() > context)  // before anything is made of it
      return Status(Errc::kInvalidArgument, fmt::format("the prompt has {} tokens, the context holds {}",
                                                        request.prompt.size(), context));
    auto made = std::make_unique<Active>(Session(std::move(request), tokenizer, info, context, &masks),
                                         std::move(sink), clock.now());
    std::lock_guard lock(mutex);
    made->session.set_context(scheduler.context());  // the chain may be another by now
    if (draining || stopping) return Status(Errc::kCancelled, "the engine takes no new requests");
    const RequestId id{next_id};
    if (Status status = scheduler.submit(made->session.submission(id)); !status) {
      stats.refused += status.code() == Errc::kQueueFull;
      return status;
    }
    ++next_id;
    ++stats.submitted;
    if (active.empty()) stats.busy_since = clock.now();
    if (stored > 0) restore->begin(id, *root, stored, clock.now(), scheduler);
    made->session.prepare_mask();  // while the prompt is read
    active.emplace(id, std::move(made));
    changed.notify_one();
    return id;
  } catch (const Error& error) {
    return Status(error.code(), error.what());
  }
}

void Engine::Impl::end_all(FinishReason reason, const Status& status) {
  for (const RequestId id : scheduler.requests())
    if (scheduler.finish(id)) ends.push_back({id, reason, status});
}

// Requests that have waited long enough for another chain.
void Engine::Impl::end_patience(TimePoint now) {
  if (!chain_lost) return;
  for (const auto& [id, request] : active)
    if (now - std::max(*chain_lost, request->submitted) >= chain_wait_max && scheduler.finish(id))
      ends.push_back({id, FinishReason::kError, Status(Errc::kPeerLost, chain_lost_status.text())});
}

// False when the thread shall end.
bool Engine::Impl::wait_for_work(std::vector<End>& to_tell, std::optional<StepPlan>& plan) {
  std::unique_lock lock(mutex);
  for (;;) {
    const TimePoint now = clock.now();
    for (const RequestId id : scheduler.expired(now)) {
      scheduler.finish(id);
      ends.push_back(
          {id, FinishReason::kDeadline, Status(Errc::kTimeout, "the request's deadline has passed")});
    }
    end_patience(now);
    if (stopping) end_all(FinishReason::kCancelled, Status(Errc::kCancelled, "the engine was stopped"));
    to_tell = std::exchange(ends, {});
    if (next_chain && !stopping) return true;
    const Choices choices = choices_ready();
    const auto patience = together_until - std::chrono::steady_clock::now();
    if (choices == Choices::kAll || (choices == Choices::kSome && patience <= Duration(0))) return true;
    if (!stopping && !chain_lost) plan = scheduler.plan();
    if (plan) together_until = {};
    const bool restored = restore != nullptr && restore->ready();
    if (plan || restored || !to_tell.empty() || !under_way.empty()) return true;
    if (stopping) return false;
    chain_free.reset();  // for lack of work
    const auto deadline = scheduler.next_deadline();
    Duration wait = deadline ? std::clamp(*deadline - now, Duration(1), kIdleWait) : kIdleWait;
    if (chain_lost) wait = std::min(wait, kLostWait);
    if (choices == Choices::kSome) wait = std::min<Duration>(wait, patience);
    changed.wait_for(lock, wait);
  }
}

void Engine::Impl::run() {
  name_thread("bf-engine");
  wake_soon();
  reset_chain(scheduler.epoch());
  for (;;) {
    std::vector<End> to_tell;
    std::optional<StepPlan> plan;
    if (under_way.empty()) predict();
    if (!wait_for_work(to_tell, plan)) return;
    for (const End& end : to_tell) tell(end);
    if (adopt_chain()) continue;
    if (restore != nullptr && restore->busy()) take_restored();
    if (!plan && choose_deferred()) continue;  // there is more to plan now
    if (plan) begin(*plan);
    if (!under_way.empty() && (!plan || under_way.size() >= chain->info().steps_max)) receive();
  }
}

// Between two steps. One that is planned has its pages, and these are others.
void Engine::Impl::take_restored() {
  CachePages* pages = chain->cache_pages();
  if (pages != nullptr && under_way.empty()) restore->take(clock.now(), mutex, scheduler, *pages);
}

void Engine::Impl::reset_chain(uint64_t epoch) {
  if (const Status status = chain->reset(epoch, kStepTimeout); !status) (void)waits_for_chain(status);
}

// The chain cannot go on. False: nobody will bring another one.
bool Engine::Impl::waits_for_chain(const Status& status) {
  log_warn("engine: the chain cannot go on: {}", status.text());
  {
    std::lock_guard lock(mutex);
    if (stopping || next_chain) return true;
    if (!on_chain_lost) return false;
    chain_lost = clock.now();
    chain_lost_status = status;
  }
  on_chain_lost(status);
  return true;
}

// A new epoch has begun, steps under way are dropped: goes on with what the chain's caches still hold.
void Engine::Impl::resume_chain() {
  std::vector<PageClaim> claims;
  uint64_t epoch;
  {
    std::lock_guard lock(mutex);
    epoch = scheduler.epoch();
    // A refill that broke off again and again is not the way, nor is one of all for a request that is to be
    // alone.
    if (refills_broken < kRefillsMax && !suspects.alone()) claims = scheduler.claims();
    if (claims.empty()) scheduler.forget();
  }
  if (claims.empty()) return reset_chain(epoch);
  const auto report = chain->resume(epoch, claims, kStepTimeout);
  if (!report && waits_for_chain(report.status())) return;
  std::lock_guard lock(mutex);
  if (report && *report) {
    const PageMove& move = (**report).move;
    stats.moves_sent += move.offered && move.sent;
    stats.moves_computed += move.offered && !move.sent;
    stats.moved_bytes += move.bytes;
    stats.moved_row_layers += move.row_layers;
    scheduler.refill(claims, **report);
  } else {
    scheduler.forget();
  }
}

// Takes up the chain that replace_chain() left, if there is one.
bool Engine::Impl::adopt_chain() {
  std::shared_ptr<Chain> old;
  std::vector<End> failed;
  {
    std::lock_guard lock(mutex);
    if (!next_chain || stopping) return false;
    old = std::exchange(chain, std::exchange(next_chain, nullptr));
    chain_lost.reset();
    ++stats.chains;
    scheduler.move_to(chain->info());
    if (std::exchange(next_after_loss, false))
      if (auto given_up = count_loss(nullptr, Status(Errc::kPeerLost, "a node of the chain is lost")))
        failed.push_back(*given_up);
    for (auto& [id, request] : active) request->session.set_context(scheduler.context());
    for (const RequestId id : scheduler.too_long()) {
      const Status status(Errc::kOutOfMemory,
                          fmt::format("the text has {} tokens, after a change of nodes there is room for {}",
                                      scheduler.sequence(id).tokens.size(), scheduler.context()));
      scheduler.finish(id);
      failed.push_back({id, FinishReason::kError, status});
    }
  }
  under_way.clear();
  chain_free.reset();
  failures = 0;
  old.reset();
  for (const End& end : failed) tell(end);
  resume_chain();
  return true;
}

// Between two steps: the chain guesses how texts go on, for the next one.
void Engine::Impl::predict() {
  if (!predicts || !chain->info().predicts) return;
  std::optional<DraftRequest> request;
  {
    std::lock_guard lock(mutex);
    if (stopping || chain_lost || next_chain) return;
    request = scheduler.predictions();
  }
  if (!request) return;
  const TimePoint began = clock.now();
  const auto drafts = chain->draft(*request);
  const TimePoint done = clock.now();
  uint64_t epoch = 0;
  {
    std::lock_guard lock(mutex);
    if (chain_free) *chain_free += done - began;
    if (drafts) return scheduler.predicted(*request, *drafts, done - began);
    epoch = scheduler.reset();
  }
  log_warn("engine: the chain cannot predict, and is not asked any more: {}", drafts.status().text());
  predicts = false;
  reset_chain(epoch);
}

void Engine::Impl::begin(const StepPlan& plan) {
  UnderWay step{plan, {}};
  {
    std::lock_guard lock(mutex);
    const TimePoint now = clock.now();
    for (const StepPart& part : plan.parts) {
      const auto it = active.find(part.id);
      Active* request = it == active.end() ? nullptr : it->second.get();
      step.actives.push_back(request);
      if (request == nullptr || request->began) continue;
      request->began = now;
      if (scheduler.knows(part.id)) request->cached_tokens = scheduler.sequence(part.id).cached_tokens;
      stats.queue_time.add(now - request->submitted);
    }
    if (chain_free) stats.engine_time += now - *std::exchange(chain_free, {});
    if (under_way.empty()) step_began = now;
  }
  const Status status = chain->submit(plan.request);
  if (!status) return fail_step(plan, status, false);
  under_way.push_back(std::move(step));
}

void Engine::Impl::receive() {
  {
    const std::lock_guard lock(mutex);
    if (scheduler.oldest_is_void()) chain->skip();
  }
  const StepResult result = chain->receive(kStepTimeout);
  const TimePoint done = clock.now();
  const UnderWay step = std::move(under_way.front());
  under_way.erase(under_way.begin());
  const StepRequest& request = step.plan.request;
  if (!result.status) return fail_step(step.plan, result.status, true);
  if (result.epoch != request.epoch || result.step != request.step) {
    {
      std::lock_guard lock(mutex);
      ++stats.stale_results;
    }
    return fail_step(
        step.plan,
        Status(Errc::kPeerLost, fmt::format("step {} of epoch {} came, expected {} of {}", result.step,
                                            result.epoch, request.step, request.epoch)),
        true);
  }
  failures = 0;
  if (step.plan.request.fill == LayerSpan{}) refills_broken = 0;
  chain_free = done;
  const Duration time = done - step_began;
  step_began = done;
  finish_step(step, result, time);
}

// Chooses the tokens of every part, requests apart from each other; into the log first, then to the readers.
void Engine::Impl::finish_step(const UnderWay& step, const StepResult& result, Duration time) {
  const std::vector<StepPart>& parts = step.plan.parts;
  const size_t vocab = chain->info().vocab, dim = chain->info().dim;
  std::vector<Session::Outcome> chosen(parts.size());
  std::vector<Status> errors(parts.size());
  std::vector<PartOutcome> outcomes(parts.size());
  std::vector<std::pair<size_t, size_t>> first_rows(parts.size());  // of logits, of hidden rows
  for (size_t i = 1; i < parts.size(); ++i)
    first_rows[i] = {first_rows[i - 1].first + parts[i - 1].logit_rows,
                     first_rows[i - 1].second + parts[i - 1].hidden_rows};
  // Parts of steps that began before the text in front of them was known, and were not right.
  std::vector<bool> in_vain(parts.size());
  if (std::ranges::any_of(parts, &StepPart::ahead)) {
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < parts.size(); ++i) in_vain[i] = scheduler.is_void(parts[i].id);
  }
  std::vector<bool> late(parts.size());
  const auto is_late = [&](size_t i, std::chrono::steady_clock::time_point deadline) {
    return step.actives[i] != nullptr && !in_vain[i] && parts[i].chooses &&
           !step.actives[i]->session.mask_ready(deadline);
  };
  bool all_late = true;
  for (size_t i = 0; i < parts.size(); ++i) all_late = (late[i] = is_late(i, {})) && all_late;
  const auto now_masks = std::chrono::steady_clock::now();
  const auto patience = now_masks + (parts.size() == 1 ? std::clamp<Duration>(time, kGuessWait, kGuessWaitMax)
                                                       : time / kMaskWaitPart);
  together_until = all_late ? now_masks + std::max(time, kMaskWait) : now_masks;
  for (size_t i = 0; i < parts.size() && !all_late; ++i) late[i] = late[i] && is_late(i, patience);
  chain->for_each(parts.size(), [&](size_t i) {
    outcomes[i].id = parts[i].id;
    if (step.actives[i] == nullptr || in_vain[i]) return;
    const auto [logit_row, hidden_row] = first_rows[i];
    const auto logits = result.logits.subspan(logit_row * vocab, parts[i].logit_rows * vocab);
    const auto hidden = result.hidden.subspan(hidden_row * dim, parts[i].hidden_rows * dim);
    try {
      Active& request = *step.actives[i];
      chosen[i] = request.session.take(parts[i], logits, hidden, late[i], patience);
      if (late[i]) {
        const auto row = request.session.choice_rows(parts[i], logits);
        request.logits.assign(row.begin(), row.end());
      }
    } catch (const std::exception& error) {  // this request's own fault: its logits, its constraint
      const auto* known = dynamic_cast<const Error*>(&error);
      errors[i] = Status(known != nullptr ? known->code() : Errc::kOutOfMemory, error.what());
      chosen[i] = {};
      chosen[i].finish = FinishReason::kError;
    }
    outcomes[i] = {parts[i].id, chosen[i].tokens, chosen[i].finish.has_value(), late[i]};
  });
  const TimePoint now = clock.now();
  std::vector<bool> in_log(parts.size());
  {
    std::lock_guard lock(mutex);
    for (size_t i = 0; i < parts.size(); ++i) in_log[i] = scheduler.knows(parts[i].id);
    scheduler.complete(step.plan.request.step, time, std::move(outcomes));
    bool cleared = false;
    for (size_t i = 0; i < parts.size(); ++i)
      if (!in_vain[i]) cleared = suspects.passed(parts[i].id, last_position(parts[i])) || cleared;
    if (cleared) scheduler.run_alone(suspects.alone());
    stats.last_step = stats.busy_since = now;
    stats.step_time += time;
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!in_log[i] || step.actives[i] == nullptr || in_vain[i]) continue;  // cancelled meanwhile
    step.actives[i]->draft_tokens += parts[i].draft.size();
    step.actives[i]->draft_accepted += chosen[i].tokens.empty() ? 0 : chosen[i].tokens.size() - 1;
    // Not what a chain that was lost reads again: the client has seen tokens by then.
    if (Active& request = *step.actives[i]; !parts[i].chooses && !request.first_token)
      request.sink->on_progress(parts[i].id,
                                std::min(last_position(parts[i]) + 1, request.session.prompt_tokens()),
                                request.session.prompt_tokens());
    send(*step.actives[i], parts[i].id, chosen[i], now);
    if (chosen[i].finish) {
      tell({parts[i].id, *chosen[i].finish, errors[i]});
    } else if (late[i]) {
      deferred.push_back(parts[i].id);
    }
  }
}

// With the mutex or by the thread: actives of deferred requests are its own.
Engine::Impl::Choices Engine::Impl::choices_ready() const {
  size_t ready = 0, slow = 0;
  for (const RequestId id : deferred) {
    const auto it = active.find(id);
    if (it == active.end() || it->second->session.mask_ready({})) {
      ++ready;
    } else {
      slow += it->second->session.mask_slow();
    }
  }
  if (ready == 0) return Choices::kNone;
  return ready + slow < deferred.size() ? Choices::kSome : Choices::kAll;
}

// Tokens whose masks have come by now. False: none has.
bool Engine::Impl::choose_deferred() {
  bool any = false;
  for (const RequestId id : std::exchange(deferred, {})) {
    Active* request = nullptr;
    {
      const std::lock_guard lock(mutex);
      const auto it = active.find(id);
      if (it == active.end() || !scheduler.knows(id)) continue;  // over meanwhile
      request = it->second.get();
    }
    if (!request->session.mask_ready({})) {
      deferred.push_back(id);
      continue;
    }
    Session::Outcome chosen;
    Status error;
    try {
      chosen = request->session.take_choice(request->logits);
    } catch (const std::exception& failure) {
      const auto* known = dynamic_cast<const Error*>(&failure);
      error = Status(known != nullptr ? known->code() : Errc::kOutOfMemory, failure.what());
      chosen = {};
      chosen.finish = FinishReason::kError;
    }
    request->logits = {};
    any = true;
    const TimePoint now = clock.now();
    bool in_log;
    {
      const std::lock_guard lock(mutex);
      in_log = scheduler.knows(id);
      scheduler.choose({id, chosen.tokens, chosen.finish.has_value()});
      stats.last_step = stats.busy_since = now;
    }
    if (!in_log) continue;
    send(*request, id, chosen, now);
    if (chosen.finish) tell({id, *chosen.finish, error});
  }
  return any;
}

void Engine::Impl::send(Active& request, RequestId id, Session::Outcome& outcome, TimePoint now) {
  if (outcome.prompt) request.sink->on_prompt(id, std::move(*outcome.prompt));
  if (outcome.events.empty()) return;
  {
    std::lock_guard lock(mutex);
    if (!request.first_token) {
      request.first_token = now;
      stats.first_token.add(now - request.submitted);
    } else {
      stats.token_gap.add(now - *request.last_token);
    }
  }
  request.last_token = now;
  request.sent_tokens += outcome.events.size();
  request.sink->on_tokens(id, std::move(outcome.events));
}

// The chain was lost with `plan` (may be null) and all of under_way inside it. Who is given up for it.
std::optional<End> Engine::Impl::count_loss(const StepPlan* plan, const Status& status) {
  std::vector<Suspects::UnderWay> requests;
  const auto add = [&](const StepPlan& step) {
    for (const StepPart& part : step.parts)
      if (scheduler.knows(part.id) && !part.ahead) requests.push_back({part.id, last_position(part)});
    // Filling pages is reading the same text. Only a step that goes on behind them makes up for a loss here:
    // a fill passes some of the layers.
    for (const StepPlan::Filled& filled : step.filled)
      if (scheduler.knows(filled.id)) requests.push_back({filled.id, filled.last});
  };
  if (plan != nullptr) add(*plan);
  for (const UnderWay& step : under_way) add(step.plan);
  const auto given_up = suspects.lost(requests);
  if (given_up) scheduler.finish(*given_up);
  scheduler.run_alone(suspects.alone());
  if (!given_up) return std::nullopt;
  // Not a status that clients take for "try again": that would lose as many nodes again.
  return End{*given_up, FinishReason::kError,
             Status(Errc::kUnsupported,
                    fmt::format("the request was given up: {} times, at the same place, nodes were lost that "
                                "computed it, the last time it alone ({})",
                                Suspects::kLossesMax, status.text()))};
}

// The chain lost the step, and with it we do not know what of the cache. What the world did (a peer lost, a
// timeout) is tried again from the logs; what the chain objects to would come back, so those requests end.
void Engine::Impl::fail_step(const StepPlan& plan, const Status& status, bool was_under_way) {
  const bool lost = status.code() == Errc::kPeerLost || status.code() == Errc::kTimeout;
  const bool again = lost && ++failures < kFailuresMax;
  uint64_t epoch;
  std::vector<End> failed;
  bool replaced;
  {
    std::lock_guard lock(mutex);
    refills_broken += scheduler.refilling() || plan.request.fill != LayerSpan{};
    epoch = scheduler.halt();
    if (!stopping && (lost || (next_chain && next_after_loss)))
      if (auto given_up = count_loss(was_under_way ? &plan : nullptr, status)) failed.push_back(*given_up);
    // The chain was closed, by stop() or for another one: nothing is wrong with the requests.
    replaced = stopping || next_chain;
    if (!again && !replaced) {
      for (const StepPart& part : plan.parts)
        if (scheduler.finish(part.id)) failed.push_back({part.id, FinishReason::kError, status});
      scheduler.forget();
    }
  }
  under_way.clear();
  for (const End& end : failed) tell(end);
  if (replaced) return;
  if (again) return resume_chain();
  reset_chain(epoch);
}

// Everything is counted before the reader hears of the end, so that who has heard of it finds it counted.
void Engine::Impl::tell(const End& end) {
  std::unique_ptr<Active> request;
  const TimePoint now = clock.now();
  {
    std::lock_guard lock(mutex);
    const auto it = active.find(end.id);
    if (it == active.end()) return;
    request = std::move(it->second);
    active.erase(it);
    if (suspects.forget(end.id)) scheduler.run_alone(suspects.alone());
    if (active.empty()) stats.busy_since.reset();
    ++stats.finished[static_cast<size_t>(end.reason)];
    stats.request_time.add(now - request->submitted);
    ++telling;
  }
  for (UnderWay& step : under_way)
    for (Active*& other : step.actives)
      if (other == request.get()) other = nullptr;
  FinishEvent event = request->session.finish(end.reason, end.status);
  event.usage.cached_tokens = request->cached_tokens;
  event.usage.generated_tokens = request->sent_tokens;
  event.usage.draft_tokens = request->draft_tokens;
  event.usage.draft_accepted = request->draft_accepted;
  event.timings.queued = request->began.value_or(now) - request->submitted;
  event.timings.first_token = request->first_token.value_or(now) - request->submitted;
  event.timings.total = now - request->submitted;
  request->sink->on_finish(end.id, std::move(event));
  request.reset();
  std::lock_guard lock(mutex);
  --telling;
  empty.notify_all();
}

Engine::Engine(std::unique_ptr<Chain> chain, const model::Tokenizer* tokenizer, const EngineOptions& options,
               Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(chain), tokenizer, options, clock)) {
  impl_->thread = std::thread([this] { impl_->run(); });
}

Engine::~Engine() { stop(); }

Result<RequestId> Engine::submit(EngineRequest request, std::shared_ptr<EventSink> sink) {
  return impl_->submit(std::move(request), std::move(sink));
}

void Engine::cancel(RequestId id) {
  std::lock_guard lock(impl_->mutex);
  if (!impl_->scheduler.finish(id)) return;
  impl_->ends.push_back(
      {id, FinishReason::kCancelled, Status(Errc::kCancelled, "the request was cancelled")});
  impl_->changed.notify_one();
}

void Engine::replace_chain(std::unique_ptr<Chain> chain, bool lost) {
  std::shared_ptr<Chain> old;
  {
    std::lock_guard lock(impl_->mutex);
    const ChainInfo &now = impl_->chain->info(), &then = chain->info();
    BF_CHECK(now.vocab == then.vocab && now.dim == then.dim) << "a chain of another model";
    impl_->next_chain = std::move(chain);
    impl_->next_after_loss = impl_->next_after_loss || lost;
    old = impl_->chain;
    impl_->changed.notify_one();
  }
  old->close();  // wakes the thread if it waits for a step
}

size_t Engine::context() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->scheduler.context();
}

RequestCounts Engine::counts(uint32_t adapter) const {
  std::lock_guard lock(impl_->mutex);
  return impl_->scheduler.counts(adapter);
}

EngineStats Engine::stats() const {
  std::lock_guard lock(impl_->mutex);
  EngineStats stats = impl_->stats;
  const Scheduler& scheduler = impl_->scheduler;
  stats.running = scheduler.running();
  stats.waiting = scheduler.waiting();
  stats.waiting_tokens = scheduler.waiting_tokens();
  stats.pages = scheduler.pages().page_count();
  stats.pages_used = scheduler.pages().used();
  stats.pages_cached = scheduler.pages().kept();
  stats.page_positions = scheduler.pages().page_positions();
  stats.draining = impl_->draining;
  stats.chain_lost = impl_->chain_lost.has_value();
  const SchedulerStats& counted = scheduler.stats();
  stats.steps = counted.steps;
  stats.rows = counted.rows;
  stats.prompt_tokens = counted.prompt_tokens;
  stats.cached_tokens = counted.cached_tokens;
  stats.generated_tokens = counted.generated_tokens;
  stats.draft_tokens = counted.draft_tokens;
  stats.draft_accepted = counted.draft_accepted;
  stats.ahead_steps = counted.ahead_steps;
  stats.ahead_void = counted.ahead_void;
  stats.preemptions = counted.preemptions;
  stats.chain_resets = counted.resets;
  stats.again_rows = counted.again_rows;
  if (impl_->restore != nullptr) stats.restored_tokens = impl_->restore->restored_tokens();
  stats.again_row_layers = counted.again_row_layers;
  return stats;
}

bool Engine::drain(TimePoint deadline) {
  std::unique_lock lock(impl_->mutex);
  impl_->draining = true;
  const auto done = [&] { return impl_->active.empty() && impl_->telling == 0; };
  const Duration left = std::max(Duration(0), deadline - impl_->clock.now());
  if (impl_->empty.wait_for(lock, left, done)) return true;
  impl_->end_all(FinishReason::kCancelled,
                 Status(Errc::kCancelled, "the server stopped before the request was done"));
  impl_->changed.notify_one();
  impl_->empty.wait_for(lock, kStepTimeout, done);  // for the step under way
  return false;
}

void Engine::stop() {
  std::shared_ptr<Chain> chain;
  {
    std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
    chain = impl_->chain;
    impl_->changed.notify_one();
  }
  chain->close();
  if (!impl_->thread.joinable()) return;
  impl_->thread.join();
  if (CachePages* pages = impl_->chain->cache_pages(); pages != nullptr && impl_->store != nullptr)
    PrefixRestore::save(*impl_->store, impl_->scheduler, *pages, impl_->adapters.get());
}

}  // namespace butterfly::runtime
