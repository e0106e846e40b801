#include "runtime/engine/local_engine.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "runtime/engine/local_chain.h"
#include "runtime/layers/cached_layers.h"

namespace butterfly::runtime {
namespace {

// Four whole contexts, unless the model's context is so long that nobody would want to pay for that at once.
size_t default_positions(const LoadedModel& model, DType kv_type) {
  constexpr size_t kContexts = 4, kPositionsLeast = 4096;
  constexpr size_t kBytesMax = size_t{2} << 30;
  uint64_t bytes = model::bytes_per_position(model.config.states, kv_type);
  if (model.config.predicting) bytes += model::bytes_per_position({&*model.config.predicting, 1}, kv_type);
  const size_t each = std::max<size_t>(1, bytes);
  const size_t affordable = kBytesMax / each;
  return std::min(kContexts * model.config.context, std::max(affordable, kPositionsLeast));
}

}  // namespace

std::optional<size_t> parse_predict(const std::string& text) {
  if (text == "auto") return std::nullopt;
  if (text == "off") return 0;
  size_t tokens = 0;
  const char* end = text.data() + text.size();
  if (const auto [rest, error] = std::from_chars(text.data(), end, tokens);
      error != std::errc() || rest != end || tokens > graph::kGuessesMax)
    fail(Errc::kInvalidArgument, "multi-token prediction '{}': expected auto, off or 0 to {}", text,
         graph::kGuessesMax);
  return tokens;
}

bool predicts(const SchedulerOptions& options) {
  return options.speculate && options.predict_always != size_t{0};
}

LocalEngineOptions one_stream(size_t context, DType kv_type, size_t rows_max) {
  LocalEngineOptions options;
  options.engine.scheduler.running_max = 1;
  options.engine.scheduler.context = context;
  options.engine.scheduler.prompt_step_time = std::chrono::hours(1);
  options.layers = {.positions = context, .kv_type = kv_type, .rows_max = rows_max};
  return options;
}

std::unique_ptr<Engine> make_local_engine(const LoadedModel& model, Compute& compute,
                                          const LocalEngineOptions& options) {
  PagedLayersOptions layers = options.layers;
  if (layers.positions == 0) layers.positions = default_positions(model, layers.kv_type);
  layers.sequences = options.engine.scheduler.running_max;
  layers.predict = predicts(options.engine.scheduler);
  layers.adapters = options.engine.adapters;
  return std::make_unique<Engine>(std::make_unique<LocalChain>(model, compute, layers), model.tokenizer.get(),
                                  options.engine);
}

}  // namespace butterfly::runtime
