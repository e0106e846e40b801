#include "server/models/cache_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/free_memory.h"
#include "base/units.h"
#include "kernels/attention/kv_page.h"
#include "model/cache/cache_room.h"

namespace butterfly::server {
namespace {

uint64_t bytes_of(const model::ModelConfig& config, const CacheAsked& asked, size_t positions) {
  const model::CacheRoom room = model::cache_room(
      config.states, {.positions = positions, .sequences = asked.sequences, .rows_max = asked.rows_max});
  return model::state_bytes(config.states, asked.type, room) +
         (config.predicting ? model::state_bytes(*config.predicting, asked.type, room) : 0);
}

// The most positions, up to `wanted`, that take no more than bytes_max; in whole pages, 0 where none do.
size_t fitting(const model::ModelConfig& config, const CacheAsked& asked, size_t wanted) {
  if (bytes_of(config, asked, wanted) <= asked.bytes_max) return wanted;
  size_t pages = 0, too_many = wanted / kernels::kKvPage + 1;
  while (too_many - pages > 1) {
    const size_t middle = pages + (too_many - pages) / 2;
    (bytes_of(config, asked, middle * kernels::kKvPage) <= asked.bytes_max ? pages : too_many) = middle;
  }
  return pages * kernels::kKvPage;
}

}  // namespace

CacheChoice choose_cache(const model::ModelConfig& config, const CacheAsked& asked) {
  const auto bounded = [&](size_t context) {
    return config.positions_max > 0 ? std::min(context, config.positions_max) : context;
  };
  CacheChoice choice;
  const size_t own =
      std::min(bounded(config.context), CacheChoice::kContextMost);  // files say what they like
  if (asked.context > 0) {
    choice.context = bounded(asked.context);
  } else {
    const size_t least = std::min(own, CacheChoice::kContextLeast);
    choice.context = asked.bytes_max > 0 ? std::max(least, fitting(config, asked, own)) : least;
    if (asked.positions > 0) choice.context = std::min(choice.context, std::max(asked.positions, least));
  }
  if (asked.positions > 0) {
    choice.positions = asked.positions;
  } else {
    choice.positions = CacheChoice::kContexts * choice.context;
    if (asked.bytes_max > 0) choice.positions = fitting(config, asked, choice.positions);
  }
  choice.positions = std::max(choice.positions, choice.context);
  choice.bytes = bytes_of(config, asked, choice.positions);
  const std::string_view why = asked.context > 0       ? " (-c)"
                               : choice.context == own ? " (all of the model's)"
                                                       : "";
  choice.words = fmt::format("texts of up to {} tokens{}, {} in all, up to {} for them in {}", choice.context,
                             why, choice.positions, format_bytes(choice.bytes), dtype_name(asked.type));
  if (asked.context == 0 && choice.context < own)
    choice.words += fmt::format("; the model could have {}: -c, --cache-positions and --memory change that{}",
                                own, asked.type == DType::kQ8_0 ? "" : ", --cache-type q8_0 takes half");
  else
    choice.words += "; -c, --cache-positions and --cache-type change that";
  return choice;
}

uint64_t cache_budget(uint64_t memory, uint64_t weights, size_t models) {
  return (memory - std::min(memory, weights)) / 2 / std::max<size_t>(1, models);
}

uint64_t cache_budget(const Settings& settings, const std::vector<ModelSpec>& specs) {
  const uint64_t memory =
      settings.memory.empty() ? free_memory_bytes() : parse_bytes(settings.memory).or_throw();
  std::set<std::filesystem::path> files;
  uint64_t weights = 0;
  for (const ModelSpec& spec : specs) {
    if (!files.insert(spec.path).second) continue;
    try {
      weights += model::open_model(spec.path, {.tokenizer_path = spec.tokenizer, .access = FileAccess::kMap})
                     .tensor_bytes();
    } catch (const Error&) {  // who loads it will hear of it
    }
  }
  return cache_budget(memory, weights, files.size());  // all names over a file share one
}

}  // namespace butterfly::server
