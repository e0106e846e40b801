// What a request is to its reader: turns logits into tokens, text and logarithms, and knows when the text is
// over.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/sampling/logprobs.h"
#include "model/sampling/stop_matcher.h"
#include "model/tokenizer/token_stream.h"
#include "runtime/engine/embedding.h"
#include "runtime/engine/mask_worker.h"
#include "runtime/engine/request.h"
#include "runtime/engine/scheduler.h"

namespace butterfly::runtime {

// Everything here depends on the request and the logits alone, not on steps, batches or guesses. One thread
// at a time. Borrows the tokenizer.
class Session {
 public:
  // Throws Error kInvalidArgument that says what is wrong with the request. `masks` computes the masks of its
  // constraint, if it has one, and outlives the session; null: they are computed when they are needed.
  Session(EngineRequest request, const model::Tokenizer* tokenizer, const ChainInfo& chain, size_t context,
          MaskWorker* masks = nullptr);

  // What the scheduler must know; takes the prompt from here.
  Submission submission(RequestId id) const;

  struct Outcome {
    std::vector<int32_t> tokens;     // chosen
    std::vector<TokenEvent> events;  // one for each
    std::optional<std::vector<TokenEvent>>
        prompt;  // once, when the prompt is read and its logprobs were wanted
    std::optional<FinishReason> finish;
  };
  // The results of one part of a step. Throws Error for logits that are not numbers, and when the constraint
  // comes to a dead end. `defer`: no token is chosen; take_choice() does it later. Guesses whose masks do not
  // come by `patience` are dropped.
  Outcome take(const StepPart& part, std::span<const float> logits, std::span<const float> hidden, bool defer,
               std::chrono::steady_clock::time_point patience);
  // The rows of logits that a deferred part has for its choice.
  std::span<const float> choice_rows(const StepPart& part, std::span<const float> logits) const;
  Outcome take_choice(std::span<const float> logits);

  // Begins to compute the mask of the next token, if there is a constraint.
  void prepare_mask();
  // True if choosing need not wait for a mask: there is none, or it comes by then. Waits only for one that
  // should.
  bool mask_ready(std::chrono::steady_clock::time_point deadline) const;
  // It is not there, and others should not wait for it.
  bool mask_slow() const { return rules_ != nullptr && masks_ != nullptr && masks_->slow(*rules_); }

  // The end: whatever text was held back, and the embedding.
  FinishEvent finish(FinishReason reason, Status status);

  // Another chain may have room for less, or for more.
  void set_context(size_t context) { context_ = context; }

  const EngineRequest& request() const { return request_; }
  size_t generated() const { return history_.size() - prompt_size_; }
  size_t prompt_tokens() const { return prompt_size_; }

 private:
  void take_prompt(const StepPart& part, std::span<const float> logits);
  void choose_all(std::span<const int32_t> draft, std::span<const float> logits,
                  std::chrono::steady_clock::time_point patience, Outcome& outcome);
  std::optional<int32_t> choose(std::span<const float> logits);
  uint16_t candidates() const;
  void add_logprobs(std::span<const float> logits, TokenEvent& event);
  std::optional<FinishReason> append(int32_t token, TokenEvent& event);
  bool ends_text(int32_t token) const;

  EngineRequest request_;  // without the prompt, which is the beginning of history_
  const model::Tokenizer* tokenizer_;
  size_t vocab_, dim_, context_;
  bool pools_last_;
  size_t prompt_size_;
  std::vector<int32_t> history_;
  model::Sampler sampler_;
  model::StopMatcher stops_;
  std::optional<model::TokenStream> stream_;
  MaskWorker* masks_;
  std::shared_ptr<RuledText> rules_;  // null: any token
  model::Logprobs logprobs_;
  std::vector<model::Candidate> top_;
  std::vector<TokenEvent> prompt_events_;
  EmbeddingPool embedding_;
};

}  // namespace butterfly::runtime
