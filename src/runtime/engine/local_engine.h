// An engine whose model is on this machine.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "base/compute.h"
#include "runtime/engine/engine.h"
#include "runtime/layers/loaded_model.h"
#include "tensor/dtype.h"

namespace butterfly::runtime {

struct LocalEngineOptions {
  EngineOptions engine = {};
  // Positions of the cache are shared by all requests; 0: four times the model's context, at most 2 GiB of
  // it. Sequences are those of the scheduler.
  PagedLayersOptions layers = {};
};

// "auto", "off" or a number, as SchedulerOptions::predict_always. Throws Error kInvalidArgument.
std::optional<size_t> parse_predict(const std::string& text);
// Whether the model's block that predicts ahead is worth loading.
bool predicts(const SchedulerOptions& options);

// For one text at a time, of up to `context` positions. Nobody else waits, so a step that reads the prompt
// may take as long as it takes.
LocalEngineOptions one_stream(size_t context, DType kv_type = DType::kF16, size_t rows_max = 512);

// Borrows the model and what computes; both must outlive the engine, and engines may share either. Throws
// Error kOutOfMemory when the cache cannot be reserved.
std::unique_ptr<Engine> make_local_engine(const LoadedModel& model, Compute& compute,
                                          const LocalEngineOptions& options = {});

}  // namespace butterfly::runtime
