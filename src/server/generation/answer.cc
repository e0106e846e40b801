#include "server/generation/answer.h"

#include <fmt/format.h>

#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/sha256.h"
#include "server/generation/thinking_rules.h"

namespace butterfly::server {
namespace {

using runtime::FinishReason;

constexpr size_t kUnderWayMax = 16;  // texts of one request

std::string request_log_line(const Exchange& exchange, const Choice& choice) {
  const runtime::FinishEvent& f = choice.finish;
  const auto ms = [](Duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
  return fmt::format(
      "{} choice {}: {} after {} prompt tokens ({} cached), {} generated; queued {:.0f} ms, first token "
      "{:.0f} ms, total {:.0f} ms",
      exchange.id(), choice.index, runtime::finish_reason_name(f.reason), f.usage.prompt_tokens,
      f.usage.cached_tokens, f.usage.generated_tokens, ms(f.timings.queued), ms(f.timings.first_token),
      ms(f.timings.total));
}

// An id of the same form that depends on the answer alone.
std::string same_id(const std::string& id, const std::string& answer, size_t number) {
  const size_t begin = id.find('_') + 1;  // 0: it is all digits
  const std::string digits = sha256_hex(fmt::format("{}:{}", answer, number));
  return id.substr(0, begin) + digits.substr(0, std::min(id.size() - begin, digits.size()));
}

}  // namespace

std::string new_answer_id(std::string_view prefix) { return std::string(prefix) + random_hex(24); }

std::string Choice::finish_reason() const {
  if (!calls.empty()) return "tool_calls";
  return finish.reason == FinishReason::kLength || finish.reason == FinishReason::kContext ? "length"
                                                                                           : "stop";
}

// Keeps the answer alive while the engine has work for it.
class Answer::Sink : public runtime::EventSink {
 public:
  Sink(std::shared_ptr<Answer> answer, size_t index) : answer_(std::move(answer)), index_(index) {}
  void on_progress(runtime::RequestId, size_t read, size_t prompt) override {
    answer_->progress(index_, read, prompt);
  }
  void on_prompt(runtime::RequestId, std::vector<runtime::TokenEvent> tokens) override {
    answer_->prompt(index_, std::move(tokens));
  }
  void on_tokens(runtime::RequestId, std::vector<runtime::TokenEvent> tokens) override {
    answer_->tokens(index_, std::move(tokens));
  }
  void on_finish(runtime::RequestId, runtime::FinishEvent event) override {
    answer_->finish(index_, std::move(event));
  }

 private:
  std::shared_ptr<Answer> answer_;
  size_t index_;
};

runtime::EngineRequest request_for(const Generation& generation, const Choice& choice) {
  runtime::EngineRequest request(generation.request);
  request.prompt = generation.prompts[choice.prompt];
  request.sampling.seed += choice.index % generation.n;
  if (generation.grammar != nullptr) request.constraint = generation.grammar->start();
  // Rules begin behind reasoning that the prompt has opened; where a model opens it itself, they leave it
  // none.
  const OutputForm& output = generation.output;
  if (output.reasoning != nullptr &&
      (generation.reasoning_tokens_max || (output.inside && request.constraint != nullptr)))
    if (output.inside || request.constraint == nullptr)
      request.constraint = thinking_rules(generation.model->tokenizer(),
                                          {*output.reasoning, output.inside, generation.reasoning_tokens_max},
                                          std::move(request.constraint));
  return request;
}

Answer::Answer(ExchangePtr exchange, Generation generation, ErrorShape shape)
    : created_(generation.identity ? generation.identity->created : unix_seconds()),
      exchange_(std::move(exchange)),
      generation_(std::move(generation)),
      shape_(shape) {}

void Answer::start() {
  submit_all();
  // After the lock is gone: where the client has left already this runs at once.
  exchange_->on_gone([weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      const std::lock_guard lock(self->mutex_);
      self->ended_ = true;
      log_info("{} client gone: cancelled", self->exchange_->id());
      self->cancel_all();
    }
  });
}

void Answer::submit_all() {
  const std::lock_guard lock(mutex_);  // events wait until this is done
  choices_.resize(generation_.prompts.size() * generation_.n);
  for (size_t i = 0; i < choices_.size(); ++i) {
    choices_[i].index = i;
    choices_[i].prompt = i / generation_.n;
    choices_[i].parser = make_output_parser(generation_.output);
  }
  if (const auto error = submit_more()) {
    ended_ = true;
    cancel_all();
    throw *error;
  }
  on_begin();
}

// A request with hundreds of texts must not fill the queue: so many of its own are under way at once, and
// each that ends makes room for the next.
std::optional<ApiError> Answer::submit_more() {
  runtime::Engine& engine = generation_.model->engine();
  for (; open_ < kUnderWayMax && submitted_ < choices_.size(); ++submitted_) {
    Choice& choice = choices_[submitted_];
    const auto id = engine.submit(request_for(generation_, choice),
                                  std::make_shared<Sink>(shared_from_this(), choice.index));
    if (id.ok()) {
      choice.id = *id;
      ++open_;
      continue;
    }
    if (id.status().code() == Errc::kQueueFull && open_ > 0) break;  // again when one of ours ends
    const size_t size = generation_.prompts[choice.prompt].size(), context = engine.context();
    if (id.status().code() == Errc::kInvalidArgument && size > context) return too_long(size, context);
    return api_error_of(id.status().code(), id.status().text());
  }
  return std::nullopt;
}

void Answer::progress(size_t index, size_t read, size_t prompt) {
  const std::lock_guard lock(mutex_);
  if (!ended_) on_progress(choices_[index], read, prompt);
}

void Answer::prompt(size_t index, std::vector<runtime::TokenEvent> events) {
  const std::lock_guard lock(mutex_);
  choices_[index].prompt_tokens = std::move(events);
}

void Answer::tokens(size_t index, std::vector<runtime::TokenEvent> events) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  Choice& choice = choices_[index];
  if (generation_.identity) {
    for (const runtime::TokenEvent& event : events) {
      const std::vector<runtime::TokenEvent> one = {event};
      give(choice, &one);
    }
  } else {
    give(choice, &events);
  }
  if (keeps_tokens()) std::move(events.begin(), events.end(), std::back_inserter(choice.tokens));
}

// Token by token, so that counts are the same whatever came together.
void Answer::give(Choice& choice, const std::vector<runtime::TokenEvent>* events) {
  ParsedText delta;
  const auto take = [&](ParsedText part) {
    if (!part.text.empty() || !part.calls.empty()) {
      choice.tokens_open = 0;
    } else if (!part.reasoning.empty()) {
      choice.reasoning_tokens += std::exchange(choice.tokens_open, 0);
    }
    delta.append(std::move(part));
  };
  if (events != nullptr) {
    for (const runtime::TokenEvent& event : *events) {
      ++choice.tokens_open;
      take(choice.parser->push(event.text));
    }
  } else {
    const FinishReason reason = choice.finish.reason;
    take(choice.parser->push(choice.finish.text));
    take(choice.parser->flush(reason == FinishReason::kLength || reason == FinishReason::kContext));
  }
  // Made again, an answer has the same calls.
  if (generation_.identity)
    for (size_t i = 0; i < delta.calls.size(); ++i)
      delta.calls[i].id = same_id(delta.calls[i].id, generation_.identity->id, choice.calls.size() + i);
  choice.reasoning += delta.reasoning;
  choice.text += delta.text;
  choice.calls.insert(choice.calls.end(), delta.calls.begin(), delta.calls.end());
  static const std::vector<runtime::TokenEvent> kNone;
  if (!delta.empty() || (keeps_tokens() && events != nullptr && !events->empty()))
    on_delta(choice, delta, events != nullptr ? *events : kNone);
}

void Answer::finish(size_t index, runtime::FinishEvent event) {
  const std::lock_guard lock(mutex_);
  Choice& choice = choices_[index];
  choice.finished = true;
  choice.finish = std::move(event);
  --open_;
  log_info("{}", request_log_line(*exchange_, choice));
  if (generation_.lease != nullptr)
    generation_.lease->spend(choice.finish.usage.prompt_tokens - choice.finish.usage.cached_tokens +
                             choice.finish.usage.generated_tokens);
  if (ended_) return;
  switch (choice.finish.reason) {
    case FinishReason::kError:
      return fail_with(api_error_of(choice.finish.status.code(), choice.finish.status.text()));
    case FinishReason::kCancelled:
      return fail_with(api_error_of(Errc::kCancelled, "the server is shutting down"));
    case FinishReason::kDeadline:
      return fail_with(api_error_of(Errc::kTimeout, "the request took longer than this server allows"));
    default:
      break;
  }
  // What was held back: for a stop string, an unfinished character, or what might have become a call.
  give(choice, nullptr);
  on_choice_end(choice);
  if (const auto error = submit_more()) return fail_with(*error);
  if (open_ > 0) return;
  ended_ = true;
  on_complete();
}

void Answer::cancel_all() {
  for (const Choice& choice : choices_)
    if (choice.id != runtime::RequestId{} && !choice.finished) generation_.model->engine().cancel(choice.id);
}

void Answer::fail_with(const ApiError& error) {
  ended_ = true;
  cancel_all();
  on_failure(error);
}

void Answer::on_failure(const ApiError& error) { exchange_->respond(error_response(error, shape_)); }

size_t Answer::reasoning_tokens() const {
  size_t sum = 0;
  for (const Choice& choice : choices_) sum += choice.reasoning_tokens;
  return sum;
}

runtime::Usage Answer::usage() const {
  runtime::Usage sum;
  for (const Choice& choice : choices_) {
    if (choice.index % generation_.n == 0) {
      sum.prompt_tokens += choice.finish.usage.prompt_tokens;
      sum.cached_tokens += choice.finish.usage.cached_tokens;
    }
    sum.generated_tokens += choice.finish.usage.generated_tokens;
  }
  return sum;
}

}  // namespace butterfly::server
