// What the stages of one chain have in common.
#pragma once
#include <chrono>

#include "runtime/chain/row_format.h"
#include "runtime/engine/paged_layers.h"

namespace butterfly::runtime {

// The coordinator tells every stage the same `cache` and the same `format`.
struct ChainOptions {
  PagedLayersOptions cache;
  const RowFormat* format = &row_formats()[0];
  // For a message to be taken by the next stage; one that computes does not read, so longer than any step.
  Duration send_timeout = std::chrono::seconds(150);
  bool expect_steps = true;  // spin when the next step is about to come (see step_wait.h)
};

}  // namespace butterfly::runtime
