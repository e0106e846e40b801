#include "runtime/testing/plain_generate.h"

#include <algorithm>

#include "model/sampling/stop_matcher.h"
#include "model/tokenizer/token_stream.h"

namespace butterfly::runtime::testing {

PlainText plain_generate(CachedLayers& layers, std::span<const int32_t> prompt, const RequestOptions& options,
                         size_t chunk) {
  const model::Tokenizer& tokenizer = layers.model().tokenizer_or_throw();
  model::Sampler sampler(options.sampling);
  model::TokenStream stream(tokenizer, std::ranges::all_of(prompt, [&](int32_t id) {
                              return id == tokenizer.bos();  // nothing but BOS before: the text begins here
                            }));
  model::StopMatcher stops(options.stops);
  std::vector<int32_t> history(prompt.begin(), prompt.end());
  PlainText out;
  layers.cache().truncate(0, 0);
  std::span<const float> logits;
  for (size_t begin = 0; begin < prompt.size(); begin += chunk) {
    std::vector<BatchRow> rows;
    for (size_t i = begin; i < std::min(prompt.size(), begin + chunk); ++i)
      rows.push_back({prompt[i], 0, static_cast<uint32_t>(i), i + 1 == prompt.size()});
    logits = layers.run(rows);
  }
  while (out.tokens.size() < options.tokens_max) {
    const int32_t token = sampler.sample(logits, history, history.size());
    history.push_back(token);
    out.tokens.push_back(token);
    if (!options.ignore_eos && tokenizer.is_end_of_generation(token)) {
      out.reason = FinishReason::kEndOfText;
      break;
    }
    out.text += stops.push(stream.push(token));
    if (stops.stopped()) {
      out.reason = FinishReason::kStopString;
      return out;
    }
    if (out.tokens.size() == options.tokens_max) break;
    if (history.size() > layers.positions()) {
      out.reason = FinishReason::kContext;
      break;
    }
    const BatchRow row{token, 0, static_cast<uint32_t>(history.size() - 1), true};
    logits = layers.run({&row, 1});
  }
  out.text += stops.push(stream.flush());
  out.text += stops.flush();
  return out;
}

}  // namespace butterfly::runtime::testing
