// What a caller gives the engine, and what comes back.
#pragma once
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/sampling/sampler.h"
#include "model/sampling/token_constraint.h"

namespace butterfly::runtime {

struct LoadedAdapter;  // adapter_table.h

enum class RequestId : uint64_t {};

enum class RequestKind {
  kGenerate,
  kEmbed,  // one vector for the prompt; no token is chosen
};

// All of a request that several may share: the choices of one answer, say.
struct RequestOptions {
  RequestKind kind = RequestKind::kGenerate;
  model::SamplerSettings sampling;                         // with penalties, logit_bias and seed
  size_t tokens_max = std::numeric_limits<size_t>::max();  // to generate; the context bounds it too
  std::vector<std::string> stops;                          // need a tokenizer
  bool ignore_eos = false;
  bool show_special = false;  // control tokens as text instead of nothing

  bool logprobs = false;         // of every chosen token
  size_t top_logprobs = 0;       // and of so many likeliest ones; implies logprobs
  bool prompt_logprobs = false;  // of every prompt token but the first

  std::optional<TimePoint> deadline;  // of the engine's clock; later the request ends with kDeadline
  // Requests of one client share its turn: under load every client gets the same number of tokens, however
  // many requests it has. An API key's hash, say.
  uint64_t client = 0;
  // Comes after all that is not: gets what they leave, and a small part of their time (SchedulerOptions).
  bool background = false;

  // What is added to the model's products for this text, of the engine's table; null: nothing.
  std::shared_ptr<const LoadedAdapter> adapter;

  bool reuse_prefix = true;  // may start from what earlier requests left in the cache
  bool speculate = true;     // neither switch changes a bit of the result
};

struct EngineRequest : RequestOptions {
  EngineRequest() = default;
  explicit EngineRequest(const RequestOptions& options) : RequestOptions(options) {}

  std::vector<int32_t> prompt;
  std::unique_ptr<model::TokenConstraint> constraint;  // null: any token
};

// Natural logarithm of the model's probability, before temperature, penalties, bias and constraint.
struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;
};

struct TokenEvent {
  int32_t token = 0;
  // Bytes that became certain with this token: whole characters, nothing that a stop string may still
  // swallow. Often empty; then a later event or the end brings them.
  std::string text;
  float logprob = 0;              // if asked for
  std::vector<TokenLogprob> top;  // likeliest first
  bool ends_text = false;         // an end-of-text token: counted, but without text
};

enum class FinishReason {
  kEndOfText,   // the model ended the text, or its constraint did
  kStopString,  // one of `stops`
  kLength,      // tokens_max
  kContext,     // the context is full
  kEmbedded,    // an embedding is complete
  kCancelled,   // by cancel(), or by stop() and a drain that took too long
  kDeadline,
  kError,
};
std::string_view finish_reason_name(FinishReason reason);

struct Usage {
  size_t prompt_tokens = 0;
  size_t cached_tokens = 0;  // of the prompt, taken from the cache
  size_t generated_tokens = 0;
  size_t draft_tokens = 0;    // guessed ahead,
  size_t draft_accepted = 0;  // and right
};

struct Timings {
  Duration queued{};       // submit to the first row computed
  Duration first_token{};  // submit to the first token
  Duration total{};        // submit to the end
};

struct FinishEvent {
  FinishReason reason = FinishReason::kError;
  Status status;                 // why, for kError, kDeadline and kCancelled
  std::string text;              // what was held back until the end
  std::string stop;              // the stop string that was found
  std::vector<float> embedding;  // of length 1
  Usage usage;
  Timings timings;
};

// Where a request's events go. Called on the engine's thread, so it must return at once: hand the event over
// and go. It may call submit() and cancel(). After on_finish(), which comes exactly once, nothing more comes
// and the engine lets go of the sink.
class EventSink {
 public:
  virtual ~EventSink() = default;
  // Before the first token, after each step that read some of the prompt and not all of it: so many of its
  // tokens are read.
  virtual void on_progress(RequestId, size_t /*read*/, size_t /*prompt*/) {}
  // Before the first token, if asked for: one entry for each prompt token but the first.
  virtual void on_prompt(RequestId, std::vector<TokenEvent>) {}
  // Tokens that are in the log now, in order; several when a guess was right.
  virtual void on_tokens(RequestId id, std::vector<TokenEvent> tokens) = 0;
  virtual void on_finish(RequestId id, FinishEvent event) = 0;
};

}  // namespace butterfly::runtime
