// A request that a model is working on: its choices, what came of them so far, and the end.
#pragma once
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/request.h"
#include "server/api/api_error.h"
#include "server/generation/quotas.h"
#include "server/http/exchange.h"
#include "server/models/served_model.h"
#include "server/tools/chat_family.h"

namespace butterfly::server {

// What a route asks of a model.
struct Generation {
  ModelPtr model;
  std::vector<std::vector<int32_t>> prompts;
  size_t n = 1;                                           // answers to each prompt
  runtime::RequestOptions request;                        // of each of them; the seed counts up
  std::shared_ptr<const model::CompiledGrammar> grammar;  // null: any text
  OutputForm output;                                      // what the texts are taken apart by
  std::shared_ptr<Quotas::Lease> lease;                   // of its key; null: nothing is bounded
  std::optional<size_t> reasoning_tokens_max;             // only where there is reasoning to be split off
  // Of a stream that may be made again, piece by piece as it was: its id, and when it was first asked for.
  // Pieces are then those of single tokens, whatever came together.
  struct Identity {
    std::string id;
    int64_t created = 0;
  };
  std::optional<Identity> identity = {};
};

// One text that is being written.
struct Choice {
  size_t index = 0;   // in the answer
  size_t prompt = 0;  // index of its prompt
  runtime::RequestId id{};
  bool finished = false;
  std::string reasoning, text;  // without calls
  std::vector<ToolCall> calls;
  size_t reasoning_tokens = 0;  // with the mark in front of it
  size_t tokens_open = 0;       // the last ones, of which it is not certain what they belong to
  std::vector<runtime::TokenEvent> prompt_tokens, tokens;  // kept only if log probabilities were asked for
  runtime::FinishEvent finish;
  OutputParserPtr parser;

  std::string finish_reason() const;  // OpenAI's words
};

// What the engine is asked for one of them.
runtime::EngineRequest request_for(const Generation& generation, const Choice& choice);

// Gets the engine's events and hands them to a format (the derived classes), one at a time. Lives until its
// last choice has ended; when the client goes, what still runs is cancelled. Shared by engine and network,
// under a lock of its own; events come from the engine's thread.
class Answer : public std::enable_shared_from_this<Answer> {
 public:
  Answer(ExchangePtr exchange, Generation generation, ErrorShape shape);
  virtual ~Answer() = default;

  // Submits everything. Throws ApiError when the engine refuses; then nothing was sent and nothing runs.
  void start();

 protected:
  // All with the lock held, and never after the end.
  virtual void on_begin() {}                                                // the engine took it
  virtual void on_progress(Choice&, size_t /*read*/, size_t /*prompt*/) {}  // tokens of its prompt
  virtual void on_delta(Choice&, const ParsedText& /*delta*/,
                        const std::vector<runtime::TokenEvent>& /*tokens*/) {}
  virtual void on_choice_end(Choice&) {}
  virtual void on_complete() = 0;
  // The answer cannot be finished. Here: an error instead of it.
  virtual void on_failure(const ApiError& error);

  Exchange& exchange() { return *exchange_; }
  const Generation& generation() const { return generation_; }
  ServedModel& model() const { return *generation_.model; }
  std::vector<Choice>& choices() { return choices_; }
  ErrorShape shape() const { return shape_; }
  runtime::Usage usage() const;     // of all choices: each prompt counts once
  size_t reasoning_tokens() const;  // of all choices
  bool keeps_tokens() const { return generation_.request.logprobs || generation_.request.prompt_logprobs; }

  const int64_t created_;  // seconds since 1970

 private:
  class Sink;
  void submit_all();
  std::optional<ApiError> submit_more();
  void tokens(size_t index, std::vector<runtime::TokenEvent> events);
  void progress(size_t index, size_t read, size_t prompt);
  void prompt(size_t index, std::vector<runtime::TokenEvent> events);
  void finish(size_t index, runtime::FinishEvent event);
  // Nothing: the end.
  void give(Choice& choice, const std::vector<runtime::TokenEvent>* events);
  void cancel_all();
  void fail_with(const ApiError& error);

  ExchangePtr exchange_;
  Generation generation_;
  const ErrorShape shape_;
  std::mutex mutex_;
  std::vector<Choice> choices_;
  size_t submitted_ = 0;  // choices that the engine has seen
  size_t open_ = 0;       // and that have not ended
  bool ended_ = false;
};

std::string new_answer_id(std::string_view prefix);  // "chatcmpl-" and random digits

}  // namespace butterfly::server
