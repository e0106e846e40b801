#include "runtime/engine/local_engine.h"

#include "runtime/engine/paged_stage.h"

namespace butterfly::runtime {

std::unique_ptr<Engine> make_local_engine(const LoadedModel& model, ThreadPool& pool,
                                          const LocalEngineOptions& options) {
  constexpr size_t kContexts = 4;
  PagedStageOptions stage;
  stage.positions = options.positions == 0 ? kContexts * model.config.context : options.positions;
  stage.sequences = options.engine.running_max;
  stage.kv_type = options.kv_type;
  stage.rows_max = options.rows_max;
  stage.turn = options.turn;
  return std::make_unique<Engine>(std::make_unique<PagedStage>(model, pool, stage), model.tokenizer.get(),
                                  options.engine);
}

}  // namespace butterfly::runtime
