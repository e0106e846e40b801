#include "runtime/engine/session.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "runtime/engine/adapter_table.h"

namespace butterfly::runtime {
namespace {

void check_tokens(std::span<const int32_t> tokens, size_t vocab) {
  for (const int32_t token : tokens)
    if (token < 0 || static_cast<size_t>(token) >= vocab)
      fail(Errc::kInvalidArgument, "token {} is outside the vocabulary of {}", token, vocab);
}

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEndOfText:
      return "end of text";
    case FinishReason::kStopString:
      return "stop string";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kContext:
      return "context full";
    case FinishReason::kEmbedded:
      return "embedded";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kDeadline:
      return "deadline";
    case FinishReason::kError:
      return "error";
  }
  return "unknown";
}

Session::Session(EngineRequest request, const model::Tokenizer* tokenizer, const ChainInfo& chain,
                 size_t context, MaskWorker* masks)
    : request_(std::move(request)),
      tokenizer_(tokenizer),
      vocab_(chain.vocab),
      dim_(chain.dim),
      context_(context),
      pools_last_(chain.pools_last),
      prompt_size_(request_.prompt.size()),
      history_(std::move(request_.prompt)),
      sampler_(request_.sampling),
      stops_(request_.stops),
      masks_(masks) {
  check_tokens(history_, vocab_);
  for (const auto& [id, bias] : request_.sampling.logit_bias) check_tokens({&id, 1}, vocab_);
  if (tokenizer_ == nullptr && !request_.stops.empty())
    fail(Errc::kInvalidArgument, "stop strings need a tokenizer, the model has none");
  if (request_.kind == RequestKind::kEmbed && (request_.constraint || request_.prompt_logprobs))
    fail(Errc::kInvalidArgument, "an embedding has neither a constraint nor logarithms of probabilities");
  request_.logprobs = request_.logprobs || request_.top_logprobs > 0;
  if (request_.constraint)
    rules_ = std::make_shared<RuledText>(std::move(request_.constraint), vocab_, masks_);
  if (tokenizer_ != nullptr) {
    const bool at_start = std::ranges::all_of(history_, [&](int32_t id) { return id == tokenizer_->bos(); });
    stream_.emplace(*tokenizer_, at_start, model::DecodeOptions{request_.show_special});
  }
}

Submission Session::submission(RequestId id) const {
  Submission submission;
  submission.id = id;
  submission.prompt = history_;
  const bool embeds = request_.kind == RequestKind::kEmbed;
  submission.generates = !embeds && request_.tokens_max > 0;
  if (embeds) submission.prompt_output = RowOutput::kHidden;
  submission.last_output_only = embeds && pools_last_;
  if (request_.prompt_logprobs) submission.prompt_output = RowOutput::kLogits;
  submission.candidates = candidates();
  submission.tokens_max = request_.tokens_max;
  submission.client = request_.client;
  submission.adapter = request_.adapter == nullptr ? 0 : request_.adapter->number;
  submission.background = request_.background;
  submission.deadline = request_.deadline;
  submission.reuse_prefix = request_.reuse_prefix;
  submission.speculate = request_.speculate;
  for (size_t i = 0; tokenizer_ != nullptr && i < history_.size(); ++i)
    if (tokenizer_->is_end_of_generation(history_[i])) submission.marks.push_back(i + 1);
  return submission;
}

// Greedy and top-k choices see no more than the first ones, unless something else moves tokens forward or
// counts all of them.
uint16_t Session::candidates() const {
  if (request_.logprobs || rules_ != nullptr) return 0;
  const size_t count = sampler_.candidates_max();
  return count <= kCandidatesMax ? static_cast<uint16_t>(count) : uint16_t{0};
}

void Session::prepare_mask() {
  if (rules_ != nullptr && masks_ != nullptr) masks_->prepare(rules_);
}

bool Session::mask_ready(std::chrono::steady_clock::time_point deadline) const {
  return rules_ == nullptr || masks_ == nullptr || masks_->wait(*rules_, deadline);
}

std::span<const float> Session::choice_rows(const StepPart& part, std::span<const float> logits) const {
  return logits.last((1 + part.draft.size()) * vocab_).first(vocab_);
}

Session::Outcome Session::take(const StepPart& part, std::span<const float> logits,
                               std::span<const float> hidden, bool defer,
                               std::chrono::steady_clock::time_point patience) {
  BF_CHECK(logits.size() == part.logit_rows * vocab_ && hidden.size() == part.hidden_rows * dim_)
      << "outputs of another size";
  Outcome outcome;
  if (part.hidden_rows > 0) embedding_.add(hidden, dim_);
  const size_t choices = part.chooses ? 1 + part.draft.size() : 0;
  const size_t prompt_rows = part.logit_rows - choices;
  if (prompt_rows > 0) take_prompt(part, logits.first(prompt_rows * vocab_));
  const bool read = part.first_position + part.row_count >= prompt_size_;
  if (read && request_.prompt_logprobs && generated() == 0) outcome.prompt = std::move(prompt_events_);
  if (read && request_.kind == RequestKind::kEmbed) outcome.finish = FinishReason::kEmbedded;
  if (read && request_.tokens_max == 0) outcome.finish = FinishReason::kLength;
  if (choices > 0 && !defer && !outcome.finish)
    choose_all(part.draft, logits.subspan(prompt_rows * vocab_), patience, outcome);
  return outcome;
}

Session::Outcome Session::take_choice(std::span<const float> logits) {
  Outcome outcome;
  choose_all({}, logits, {}, outcome);
  return outcome;
}

// A guess is right if it is what would be chosen anyway: choose, and go on as long as it agrees.
void Session::choose_all(std::span<const int32_t> draft, std::span<const float> logits,
                         std::chrono::steady_clock::time_point patience, Outcome& outcome) {
  for (size_t i = 0; i <= draft.size() && !outcome.finish; ++i) {
    // A guess whose mask takes long is not worth waiting for: it is computed anew.
    if (i > 0 && !mask_ready(patience)) break;
    const auto row = logits.subspan(i * vocab_, vocab_);
    const std::optional<int32_t> token = choose(row);
    if (!token) {
      outcome.finish = FinishReason::kEndOfText;
      break;
    }
    TokenEvent& event = outcome.events.emplace_back();
    event.token = *token;
    if (request_.logprobs) add_logprobs(row, event);
    outcome.tokens.push_back(*token);
    outcome.finish = append(*token, event);
    if (!outcome.finish) prepare_mask();
    if (i < draft.size() && *token != draft[i]) break;
  }
}

// Nothing: the rules allow no token, and the text is whole.
std::optional<int32_t> Session::choose(std::span<const float> logits) {
  if (rules_ == nullptr) return sampler_.sample(logits, history_, history_.size());
  const std::span<const uint64_t> mask = rules_->mask();
  if (!std::ranges::all_of(mask, [](uint64_t word) { return word == 0; }))
    return sampler_.sample(logits, history_, history_.size(), mask);
  if (rules_->can_end()) return std::nullopt;
  fail(Errc::kUnsupported, "the answer cannot be finished: after {} tokens {}", generated(),
       rules_->why_dead_end());
}

// Row i is at position first + i and speaks of the token behind it.
void Session::take_prompt(const StepPart& part, std::span<const float> logits) {
  const size_t rows = logits.size() / vocab_;
  for (size_t i = 0; i < rows; ++i) {
    const size_t next = prompt_events_.size() + 1;  // one for each token but the first
    if (next >= prompt_size_) return;
    BF_CHECK(part.first_position + part.row_count >= next) << "logits of rows that are not there";
    TokenEvent& event = prompt_events_.emplace_back();
    event.token = history_[next];
    add_logprobs(logits.subspan(i * vocab_, vocab_), event);
  }
}

void Session::add_logprobs(std::span<const float> logits, TokenEvent& event) {
  logprobs_.set(logits);
  event.logprob = logprobs_.of(event.token);
  if (request_.top_logprobs == 0) return;
  logprobs_.top(request_.top_logprobs, top_);
  for (const model::Candidate& candidate : top_) event.top.push_back({candidate.id, candidate.logit});
}

bool Session::ends_text(int32_t token) const {
  if (tokenizer_ == nullptr || !tokenizer_->is_end_of_generation(token)) return false;
  return !request_.ignore_eos || rules_ != nullptr;
}

// The token goes into the history; the reason if it was the last.
std::optional<FinishReason> Session::append(int32_t token, TokenEvent& event) {
  history_.push_back(token);
  if (ends_text(token)) {
    event.ends_text = true;
    return FinishReason::kEndOfText;
  }
  if (rules_ != nullptr) rules_->accept(token);
  if (stream_) event.text = stops_.push(stream_->push(token));
  if (stops_.stopped()) return FinishReason::kStopString;
  if (generated() >= request_.tokens_max) return FinishReason::kLength;
  if (history_.size() > context_) return FinishReason::kContext;
  return std::nullopt;
}

FinishEvent Session::finish(FinishReason reason, Status status) {
  FinishEvent event;
  event.reason = reason;
  event.status = std::move(status);
  if (stops_.stopped()) {
    event.stop = stops_.stop();
  } else if (stream_) {
    event.text = stops_.push(stream_->flush());
    event.text += stops_.flush();
  }
  if (reason == FinishReason::kEmbedded) event.embedding = embedding_.result();
  event.usage.prompt_tokens = prompt_size_;
  return event;
}

}  // namespace butterfly::runtime
