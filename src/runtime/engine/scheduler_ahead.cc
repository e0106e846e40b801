// Steps that begin before the text in front of them is known, where stages of a chain would be idle.
//
// A chain works on one text in one stage at a time. While a step is under way the scheduler guesses what it
// will choose, and sends a step behind it that goes on from there. When the tokens are chosen as always, and
// are those that were guessed, that step is one like any other, begun early. If not, it is void: its results
// are dropped, what it wrote lies behind the end of the text, and the next step, which every stage computes
// after it, writes over that.
#include <algorithm>
#include <utility>

#include "runtime/engine/scheduler.h"
#include "runtime/engine/step_builder.h"

namespace butterfly::runtime {

// States of recurrent layers cannot go back, and windows are trimmed by what is certain.
bool Scheduler::may_run_ahead(const Sequence& sequence) const {
  return options_.speculate && sequence.request.speculate && sequence.request.generates &&
         chain_.state_pages == 0 && chain_.window_pages == 0 && sequence.in_flight == sequence.ahead + 1 &&
         sequence.remaining() == 0 && !sequence.choice_pending;
}

// And steps without are measured again and again.
bool Scheduler::ahead_pays() const {
  constexpr size_t kUnbrokenMax = 128;
  return !ahead_failed_ && !ahead_budget_.pausing() && ahead_unbroken_ < kUnbrokenMax;
}

// Guesses in a step cost less than a step ahead for each of them: where many promise something, the text's
// next step is better one with all of them. Nor is anything known of what a step ahead gains before the one
// in front of it has been measured alone.
bool Scheduler::rather_ahead(const Sequence& sequence, size_t rows, std::span<const int32_t> text) const {
  for (const UnderWay& step : under_way_)
    for (const UnderWay::Part& part : step.parts)
      if (part.id == sequence.id() && !part.ahead && !times_.knows(step.mix)) return false;
  std::vector<double> costs;
  for (size_t i = 1; i <= guesses_max(sequence, guess_room(1)); ++i)
    costs.push_back(times_.draft_tokens(1, 0, i));
  return sequence.drafter.promising(text, costs) < 2 * rows;
}

// What steps ahead have gained, in steps: all that were made while some were under way, less the time that
// this has taken. Times of steps add up to the time that passed, so what one step lost to another is in it.
void Scheduler::measure_ahead(const UnderWay& done, Duration time) {
  const bool ahead = std::ranges::any_of(done.parts, &UnderWay::Part::ahead);
  if (!ahead && !done.beside_ahead) {
    ahead_budget_.begin_step();
    ahead_unbroken_ = 0;
    return;
  }
  ++ahead_unbroken_;
  const bool in_vain = std::ranges::all_of(done.parts, &UnderWay::Part::is_void);
  const size_t streams = std::max<size_t>(1, done.mix.streams);
  const auto alone = times_.stream_seconds(streams);
  if (alone && *alone > 0 && done.mix.prompt == 0 && done.fill_rows == 0) {
    size_t drafts = 0;
    for (const UnderWay::Part& part : done.parts) drafts += part.drafts;
    const double made =
        in_vain ? 0 : 1 + times_.draft_tokens(streams, 0, drafts) / static_cast<double>(streams);
    ahead_gain_ += made - std::chrono::duration<double>(time).count() / *alone;
  }
  const bool more = std::ranges::any_of(under_way_, [](const UnderWay& step) {
    return step.beside_ahead || std::ranges::any_of(step.parts, &UnderWay::Part::ahead);
  });
  if ((ahead && !in_vain && !ahead_failed_) || !more) {
    ahead_budget_.learn(std::exchange(ahead_gain_, 0));
    ahead_failed_ = false;
  }
}

void Scheduler::run_ahead(Builder& builder) {
  if (!ahead_pays()) return;
  Sequence* least = nullptr;
  for (Sequence* sequence : running_)
    if (may_run_ahead(*sequence) && (least == nullptr || sequence->ahead < least->ahead)) least = sequence;
  if (least == nullptr) return;
  const size_t used = least->tokens.size() + least->assumed.size();
  const size_t generated = used - least->prompt_size + 1;  // with the one that is chosen behind them
  // Not more than the step in front of it has: then stages are free again when the choice is known, right or
  // not.
  size_t in_front = 0;
  for (const UnderWay& step : under_way_)
    for (const UnderWay::Part& part : step.parts)
      if (part.id == least->id()) in_front = part.rows;
  const size_t most = std::min({in_front, options_.draft_max + 1, options_.rows_max, options_.logit_rows_max,
                                options_.context - std::min(options_.context, used),
                                least->request.tokens_max - std::min(least->request.tokens_max, generated)});
  std::vector<int32_t> text = least->tokens, guess;
  text.insert(text.end(), least->assumed.begin(), least->assumed.end());
  if (!rather_ahead(*least, in_front, text)) return;
  least->drafter.go_on(text, least->assumed.size(), most, guess);
  while (!guess.empty() && !hold_pages(*least, used + guess.size(), false, guess.size())) guess.pop_back();
  if (guess.empty()) return;
  builder.add_ahead(*least, guess);
  ++stats_.ahead_steps;
}

bool Scheduler::is_void(RequestId id) const {
  for (const UnderWay::Part& part : under_way_.front().parts)
    if (part.id == id) return part.is_void;
  return false;
}

bool Scheduler::oldest_is_void() const {
  return !under_way_.empty() && !under_way_.front().parts.empty() &&
         std::ranges::all_of(under_way_.front().parts, &UnderWay::Part::is_void);
}

// These tokens were chosen behind so many guesses: do the steps behind still go on from there? They begin
// behind all of the guesses, so a choice that stopped among them (for a mask that takes long) is not theirs,
// right as it is.
void Scheduler::settle_ahead(Sequence& sequence, const PartOutcome& outcome, size_t drafts) {
  if (sequence.ahead == 0) {
    sequence.assumed.clear();
    return;
  }
  const std::vector<int32_t>& tokens = outcome.tokens;
  const bool right = tokens.size() == drafts + 1 && !outcome.finished &&
                     tokens.size() <= sequence.assumed.size() &&
                     std::equal(tokens.begin(), tokens.end(), sequence.assumed.begin());
  sequence.drafter.learn(1, right, right ? 0 : 1.0 / static_cast<double>(steps_max_));
  ++stats_.draft_tokens;
  stats_.draft_accepted += right;
  if (!right) return drop_ahead(sequence);
  sequence.assumed.erase(sequence.assumed.begin(), sequence.assumed.begin() + std::ssize(tokens));
  --sequence.ahead;
  ++sequence.planned;  // the last of them is the first row of the next step
}

void Scheduler::drop_ahead(Sequence& sequence) {
  for (UnderWay& step : under_way_)
    for (UnderWay::Part& part : step.parts)
      if (part.id == sequence.id() && part.ahead && !part.is_void) {
        part.is_void = ahead_failed_ = true;
        ++stats_.ahead_void;
      }
  sequence.assumed.clear();
  sequence.ahead = 0;
}

}  // namespace butterfly::runtime
