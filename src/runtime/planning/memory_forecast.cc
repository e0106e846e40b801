#include "runtime/planning/memory_forecast.h"

#include <fmt/format.h>

#include "base/checked.h"
#include "base/units.h"
#include "graph/memory_plan.h"
#include "kernels/attention/kv_page.h"
#include "model/arch/network.h"
#include "model/cache/cache_room.h"
#include "runtime/engine/lineage.h"
#include "runtime/planning/model_shape.h"

namespace butterfly::runtime {

std::string MemoryForecast::words() const {
  return fmt::format("weights {}, cache {}, activations {}{}", format_bytes(weight_bytes),
                     format_bytes(cache_bytes), format_bytes(activation_bytes),
                     kept_bytes == 0 ? "" : ", kept rows " + format_bytes(kept_bytes));
}

uint64_t kept_bytes(const StageSettings& settings, size_t dim) {
  if (settings.kept_bytes == 0 || !find_row_format(settings.wire).is_exact()) return 0;
  const uint64_t positions = ceil_div(settings.positions, kernels::kKvPage) * kernels::kKvPage;
  return std::min<uint64_t>(settings.kept_bytes, positions * dim * sizeof(float)) +
         positions * sizeof(Lineage);
}

// Piece by piece: even without values small matrices take memory while their layer is there, and a node that
// asks whether a model fits may not have room for it.
MemoryForecast forecast_memory(const model::ModelFile& file, const model::LayerRange& range,
                               const StageSettings& settings, size_t threads,
                               const model::GroupShare& group) {
  model::ModelConfig config = model::read_config(file, settings.context);
  share_states(config, file, group);
  model::check_range(range, config.layers);
  const model::ModelFile shapes = without_values(file);
  const model::Architecture& architecture = model::architecture_of(shapes);
  ThreadPool pool(1);
  MemoryForecast forecast;
  const auto add = [&](const model::LayerRange& piece) {
    model::WeightLoader weights(shapes, pool);
    weights.leave_values();
    weights.load_share(group);
    const auto network = architecture.load(config, weights, piece);
    forecast.weight_bytes += weights.resident_bytes();
    forecast.read_bytes += weights.read_bytes();
    graph::Graph graph;
    network->build(graph, settings.rows_max, std::min<size_t>(settings.sequences, settings.rows_max));
    forecast.activation_bytes =
        std::max<uint64_t>(forecast.activation_bytes, graph::plan_memory(graph, threads).arena_bytes);
  };
  if (range.has_embedding()) add(model::range_of_pieces(0, 1, config.layers));
  for (size_t block = range.begin; block < range.end; ++block)
    add(model::range_of_pieces(1 + block, 2 + block, config.layers));
  if (range.has_head(config.layers))
    add(model::range_of_pieces(1 + config.layers, 2 + config.layers, config.layers));
  const PagedLayersOptions cache = settings.chain_options().cache;
  const model::CacheRoom room = model::cache_room(config.states, {.positions = cache.positions,
                                                                  .sequences = cache.sequences,
                                                                  .rows_max = cache.rows_max,
                                                                  .cut_windows = cache.cut_windows});
  forecast.cache_bytes =
      model::state_bytes(std::span(config.states).subspan(range.begin, range.blocks()), cache.kv_type, room);
  if (!range.has_head(config.layers) && !group) forecast.kept_bytes = kept_bytes(settings, config.row_cols());
  return forecast;
}

Status check_fits(const MemoryForecast& forecast, uint64_t free_bytes, const std::string& what) {
  if (forecast.total() <= free_bytes) return {};
  return {Errc::kOutOfMemory,
          fmt::format("{} needs {} of memory ({}), {} are free", what, format_bytes(forecast.total()),
                      forecast.words(), format_bytes(free_bytes))};
}

}  // namespace butterfly::runtime
