#include "runtime/engine/local_engine.h"

#include <algorithm>

#include "runtime/engine/local_chain.h"
#include "runtime/layers/cached_layers.h"

namespace butterfly::runtime {
namespace {

// Four whole contexts, unless the model's context is so long that nobody would want to pay for that at once.
size_t default_positions(const LoadedModel& model, DType kv_type) {
  constexpr size_t kContexts = 4, kPositionsLeast = 4096;
  constexpr size_t kBytesMax = size_t{2} << 30;
  const size_t each = std::max<size_t>(1, model::bytes_per_position(model.config.states, kv_type));
  const size_t affordable = kBytesMax / each;
  return std::min(kContexts * model.config.context, std::max(affordable, kPositionsLeast));
}

}  // namespace

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
  return std::make_unique<Engine>(std::make_unique<LocalChain>(model, compute, layers), model.tokenizer.get(),
                                  options.engine);
}

}  // namespace butterfly::runtime
