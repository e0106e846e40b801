// Serves many requests at once from one model: continuous batching over a chain of stages.
#pragma once
#include <memory>

#include "base/clock.h"
#include "base/result.h"
#include "model/tokenizer/tokenizer.h"
#include "runtime/engine/engine_options.h"
#include "runtime/engine/request.h"
#include "runtime/engine/stats.h"

namespace butterfly::runtime {

class Chain;

// One thread of its own drives the chain; submit(), cancel() and stats() may be called by any thread and do
// not wait for a step.
class Engine {
 public:
  // `tokenizer` (borrowed) may be null: then events carry no text, stops are refused and only tokens_max ends
  // a text.
  Engine(std::unique_ptr<Chain> chain, const model::Tokenizer* tokenizer, const EngineOptions& options = {},
         Clock& clock = SystemClock::instance());
  ~Engine();  // stop()
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Refuses at once, without events: kQueueFull (requests or tokens; the text says which), kInvalidArgument
  // (empty prompt, unknown token, a setting out of range, a prompt that never fits: the text has both
  // numbers), kCancelled when draining or stopped.
  Result<RequestId> submit(EngineRequest request, std::shared_ptr<EventSink> sink);

  // The request ends with kCancelled after the step under way. Unknown ids and those that have ended are
  // ignored.
  void cancel(RequestId id);

  // Goes on with another chain of the same model: another plan, or the one behind a loss. What is under way
  // is dropped, and every request is read again from its log, so its tokens are those it would have had;
  // those that the new chain has no room for end with kError and kOutOfMemory. The old chain is closed. From
  // any thread, on_chain_lost too; the last one given counts. `lost`: the old chain's nodes were, with steps
  // under way, as if the chain itself had said so (see Suspects).
  void replace_chain(std::unique_ptr<Chain> chain, bool lost = false);

  EngineStats stats() const;
  // Of the requests with this adapter (LoadedAdapter::number); 0: of those without.
  RequestCounts counts(uint32_t adapter) const;
  // The most positions a request may have: prompt and generated tokens together.
  size_t context() const;

  // Takes nothing new; true when all requests have ended. At `deadline` the rest is cancelled and it returns
  // false.
  bool drain(TimePoint deadline);
  // Cancels all requests, delivers their ends and joins the thread. Safe to call twice.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace butterfly::runtime
