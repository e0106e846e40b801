#include "runtime/layers/generate.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "model/sampling/stop_matcher.h"
#include "model/tokenizer/token_stream.h"

namespace butterfly::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// Runs the prompt in chunks; the logits after its last token.
std::span<const float> read_prompt(CachedLayers& layers, std::span<const int32_t> prompt,
                                   const GenerateOptions& options, const TextSink& sink, bool* cancelled) {
  std::span<const float> logits;
  const size_t chunk = std::clamp<size_t>(options.chunk, 1, layers.rows_max());
  std::vector<BatchRow> rows;
  for (size_t begin = options.kept; begin < prompt.size(); begin += chunk) {
    const size_t end = std::min(prompt.size(), begin + chunk);
    rows.clear();
    for (size_t i = begin; i < end; ++i)
      rows.push_back({prompt[i], 0, static_cast<uint32_t>(i), i + 1 == prompt.size()});
    logits = layers.run(rows);
    if (!sink({})) {
      *cancelled = true;
      break;
    }
  }
  return logits;
}

}  // namespace

std::string_view stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::kEndOfText:
      return "end of text";
    case StopReason::kStopString:
      return "stop string";
    case StopReason::kLength:
      return "length";
    case StopReason::kContext:
      return "context full";
    case StopReason::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

GenerateResult generate(CachedLayers& layers, std::span<const int32_t> prompt, const GenerateOptions& options,
                        const TextSink& sink) {
  if (prompt.empty()) fail(Errc::kInvalidArgument, "the prompt has no tokens");
  if (prompt.size() > layers.positions())
    fail(Errc::kInvalidArgument,
         "the prompt has {} tokens, the context holds {}; use a larger -c or a shorter prompt", prompt.size(),
         layers.positions());
  BF_CHECK(options.kept < prompt.size()) << options.kept << " of " << prompt.size();
  GenerateResult result;
  result.prompt_tokens = prompt.size();
  const model::Tokenizer& tokenizer = layers.model().tokenizer_or_throw();
  model::Sampler sampler(options.sampling);
  model::TokenStream stream(tokenizer, std::all_of(prompt.begin(), prompt.end(), [&](int32_t id) {
                              return id == tokenizer.bos();  // nothing but BOS before: the text begins here
                            }));
  model::StopMatcher stops(options.stops);
  std::vector<int32_t> history(prompt.begin(), prompt.end());
  layers.cache().truncate(0, options.kept);

  const auto start = Clock::now();
  bool cancelled = false;
  std::span<const float> logits = read_prompt(layers, prompt, options, sink, &cancelled);
  Clock::time_point first = Clock::now();
  while (!cancelled && result.tokens.size() < options.tokens_max) {
    const int32_t token = sampler.sample(logits, history, history.size());
    if (result.tokens.empty()) first = Clock::now();
    history.push_back(token);
    result.tokens.push_back(token);
    if (!options.ignore_eos && tokenizer.is_end_of_generation(token)) {
      result.reason = StopReason::kEndOfText;
      break;
    }
    cancelled = !sink(stops.push(stream.push(token)));
    if (stops.stopped()) {
      result.reason = StopReason::kStopString;
      break;
    }
    if (cancelled || result.tokens.size() == options.tokens_max) break;
    if (history.size() > layers.positions()) {
      result.reason = StopReason::kContext;
      break;
    }
    const BatchRow row{token, 0, static_cast<uint32_t>(history.size() - 1), true};
    logits = layers.run({&row, 1});
  }
  if (cancelled) result.reason = StopReason::kCancelled;
  if (!stops.stopped()) {
    sink(stops.push(stream.flush()));
    sink(stops.flush());
  }
  result.prompt_time = first - start;
  result.eval_time = Clock::now() - first;
  return result;
}

}  // namespace butterfly::runtime
