// An engine whose model is on this machine.
#pragma once
#include <memory>
#include <mutex>

#include "runtime/engine/engine.h"
#include "runtime/layers/loaded_model.h"
#include "tensor/dtype.h"

namespace butterfly::runtime {

struct LocalEngineOptions {
  EngineOptions engine;
  // Of the key/value cache, shared by all requests. 0: four times the model's context, at most 2 GiB of it.
  size_t positions = 0;
  DType kv_type = DType::kF16;
  size_t rows_max = 512;  // per step
  // Engines that share a thread pool share this too: a step holds it while it computes. Null: the pool is the
  // engine's alone.
  std::mutex* turn = nullptr;
};

// Borrows model and pool; both must outlive the engine. Throws Error kOutOfMemory when the cache cannot be
// reserved.
std::unique_ptr<Engine> make_local_engine(const LoadedModel& model, ThreadPool& pool,
                                          const LocalEngineOptions& options = {});

}  // namespace butterfly::runtime
