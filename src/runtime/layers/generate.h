// One text from one prompt: reads the prompt in, then samples token by token.
#pragma once
#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "model/sampling/sampler.h"
#include "runtime/layers/cached_layers.h"

namespace butterfly::runtime {

struct GenerateOptions {
  model::SamplerSettings sampling;
  size_t tokens_max = SIZE_MAX;  // to generate; the context bounds it too
  std::vector<std::string> stops;
  bool ignore_eos = false;
  size_t chunk = 512;  // prompt rows per run
  // Leading tokens of the prompt that the cache holds already, from the last call with these layers:
  // they are not run again. Fewer than the prompt has.
  size_t kept = 0;
};

enum class StopReason { kEndOfText, kStopString, kLength, kContext, kCancelled };
std::string_view stop_reason_name(StopReason reason);

struct GenerateResult {
  std::vector<int32_t> tokens;  // generated, without the prompt; includes the end token
  StopReason reason = StopReason::kLength;
  size_t prompt_tokens = 0;
  std::chrono::nanoseconds prompt_time{};  // until the first token was chosen
  std::chrono::nanoseconds eval_time{};    // for the tokens after it
};

// Called with whole characters as they become certain; returns false to stop.
using TextSink = std::function<bool(std::string_view text)>;

// Uses sequence 0 of the layers. Afterwards their cache holds the prompt and all generated tokens but the
// last, unless the sink cut the prompt short. Throws Error kInvalidArgument when the prompt is empty or does
// not fit the context, naming both numbers.
GenerateResult generate(CachedLayers& layers, std::span<const int32_t> prompt, const GenerateOptions& options,
                        const TextSink& sink);

}  // namespace butterfly::runtime
