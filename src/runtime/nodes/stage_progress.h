// What a stage reports of itself, the same for both kinds.
#pragma once
#include <chrono>

#include "cluster/member/worker.h"
#include "runtime/chain/step_message.h"
#include "runtime/nodes/range_loader.h"

namespace butterfly::runtime {

// `times`: sums over the steps.
inline cluster::WorkerProgress stage_progress(const RangeLoader& loader, uint64_t steps, uint64_t rows,
                                              const StageTimes& times) {
  const auto us = [](Duration time) {
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(time).count());
  };
  const RangeLoader::Progress loading = loader.progress();
  cluster::WorkerProgress progress;
  progress.progress = loading.moves + steps;
  progress.load_done = loading.done;
  progress.load_total = loading.total;
  progress.steps = steps;
  progress.rows = rows;
  progress.compute_us = us(times.compute);
  progress.wait_us = us(times.wait);
  progress.wire_us = us(times.wire());
  return progress;
}

}  // namespace butterfly::runtime
