#include "runtime/cluster/memory_forecast.h"

#include <fmt/format.h>

#include "base/checked.h"
#include "base/units.h"
#include "graph/memory_plan.h"
#include "kernels/kv_page.h"
#include "model/arch/network.h"
#include "model/kv_memory.h"
#include "runtime/model_shape.h"

namespace butterfly::runtime {

std::string MemoryForecast::words() const {
  return fmt::format("weights {}, cache {}, activations {}", format_bytes(weight_bytes),
                     format_bytes(cache_bytes), format_bytes(activation_bytes));
}

MemoryForecast forecast_memory(const model::ModelFile& file, const model::LayerRange& range,
                               const StageSettings& settings, size_t threads) {
  const model::ModelConfig config = model::read_config(file, settings.context);
  model::check_range(range, config.layers);
  const model::ModelFile shapes = without_values(file);
  ThreadPool pool(1);
  model::WeightLoader weights(shapes, pool);
  weights.leave_values();
  const auto network = model::architecture_of(shapes).load(config, weights, range);
  MemoryForecast forecast;
  forecast.weight_bytes = weights.resident_bytes();
  const model::KvShape shape{
      .layers = range.blocks(), .kv_heads = config.kv_heads, .layout = {settings.kv_type, config.head_dim}};
  const uint64_t pages = ceil_div(settings.positions, kernels::kKvPage);
  if (range.blocks() > 0)
    forecast.cache_bytes = pages * kernels::kKvPage * uint64_t{model::kv_bytes_per_position(shape)};
  graph::Graph graph;
  network->build(graph, settings.rows_max, std::min<size_t>(settings.sequences, settings.rows_max));
  forecast.activation_bytes = graph::plan_memory(graph, threads).arena_bytes;
  return forecast;
}

Status check_fits(const MemoryForecast& forecast, uint64_t free_bytes, const std::string& what) {
  if (forecast.total() <= free_bytes) return {};
  return {Errc::kOutOfMemory,
          fmt::format("{} needs {} of memory ({}), {} are free", what, format_bytes(forecast.total()),
                      forecast.words(), format_bytes(free_bytes))};
}

}  // namespace butterfly::runtime
