// How long texts may be and how many fit, where nobody has said: as much as the model and the memory allow.
#pragma once
#include <cstdint>
#include <string>

#include "model/arch/model_config.h"
#include "server/models/served_model.h"
#include "server/settings/settings.h"

namespace butterfly::server {

struct CacheAsked {
  size_t context = 0;    // 0: the model's, as far as it fits
  size_t positions = 0;  // 0: kContexts of them, as far as they fit
  size_t sequences = 16;
  size_t rows_max = 512;
  DType type = DType::kF16;
  uint64_t bytes_max = 0;  // 0: not known; then contexts are kContextLeast at most
};

struct CacheChoice {
  static constexpr size_t kContexts = 4;
  static constexpr size_t kContextMost = size_t{1} << 24;  // as of -c
  static constexpr size_t kContextLeast = 4096;            // where nothing fits, or nobody knows what does

  size_t context = 0;
  size_t positions = 0;
  uint64_t bytes = 0;
  std::string words;  // for the user: what was chosen, why, and how to change it
};
CacheChoice choose_cache(const model::ModelConfig& config, const CacheAsked& asked);

// Of the memory that is free, or that --memory names, half of what the weights of these models leave, for the
// cache of one of them. Caches take memory as they fill.
uint64_t cache_budget(const Settings& settings, const std::vector<ModelSpec>& specs);
uint64_t cache_budget(uint64_t memory, uint64_t weights, size_t models);

}  // namespace butterfly::server
