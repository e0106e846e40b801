// What a step of a running training job would take with each way to send gradients, from what was measured.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/training/training_leader.h"

namespace butterfly::runtime {

// Measured over the steps so far.
struct WireMeasured {
  size_t nodes = 1;
  double compute_s = 0;  // a step of the slowest node, without values on links
  // Bytes that the slowest node sent in a second of sending, or of waiting for others; 0: nothing yet.
  double bytes_per_s = 0;
  double beside_s = 0;           // of a step: gradients were sent that long while it computed
  uint64_t parameter_bytes = 0;  // as floats
  // Of gradients and weights: what compression makes of them now; 1: nothing.
  double gradient_ratio = 1, weight_ratio = 1;
  size_t local_steps = 1;  // of local-steps, for as many micro-batches
};

struct WireForecast {
  std::string_view mode;
  bool lossless = false;
  double bytes = 0;     // that a node sends in a step
  double step_s = 0;    // seconds
  double update_s = 0;  // for each change of the weights by an optimizer: local-steps makes several a step
};

// Every node sends the others' shares of its gradients, and its own share of the new weights to all of them:
// (n - 1) / n of each; as much of the gradients as now goes beside computing, if there is so much. Exact
// first. Empty where nothing was measured.
std::vector<WireForecast> forecast_wire(const WireMeasured& measured);

// From what members report; of a pipeline, which sends no gradients, nothing.
WireMeasured wire_measured(const TrainingReport& report);

// In words: what each would take, which one runs and why. Lossy ones are named, and never chosen.
std::string wire_forecast_text(const WireMeasured& measured);

}  // namespace butterfly::runtime
