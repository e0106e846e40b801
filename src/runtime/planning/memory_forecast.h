// What a stage will need in memory, before anything is loaded.
#pragma once
#include <cstdint>
#include <string>

#include "base/result.h"
#include "model/arch/group_share.h"
#include "model/arch/layer_range.h"
#include "model/formats/model_file.h"
#include "runtime/chain/stage_settings.h"

namespace butterfly::runtime {

struct MemoryForecast {
  uint64_t weight_bytes = 0;      // as layers hold them
  uint64_t cache_bytes = 0;       // what layers keep of all texts: keys and values, states
  uint64_t activation_bytes = 0;  // of the largest step
  uint64_t kept_bytes = 0;        // rows that were sent on, and names of what is in the cache
  uint64_t read_bytes = 0;        // of the model's file; not of memory
  uint64_t total() const { return weight_bytes + cache_bytes + activation_bytes + kept_bytes; }
  // "weights 1.2 GiB, cache 256 MiB, activations 40 MiB"
  std::string words() const;
};

// Reads the file's head only: the values of tensors need not be there. Throws Error as loading would.
// `group`: of one member's part of the layers.
MemoryForecast forecast_memory(const model::ModelFile& file, const model::LayerRange& range,
                               const StageSettings& settings, size_t threads,
                               const model::GroupShare& group = {});

// MemoryForecast::kept_bytes of a stage that sends rows of `dim` values on.
uint64_t kept_bytes(const StageSettings& settings, size_t dim);

// kOutOfMemory with all figures if it does not fit into `free_bytes`.
Status check_fits(const MemoryForecast& forecast, uint64_t free_bytes, const std::string& what);

}  // namespace butterfly::runtime
