// The reference for everything that produces text: prompt in, then token by token, one sequence, no engine.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "runtime/engine/request.h"
#include "runtime/layers/cached_layers.h"

namespace butterfly::runtime::testing {

struct PlainText {
  std::vector<int32_t> tokens;  // generated; includes the end token
  std::string text;
  FinishReason reason = FinishReason::kLength;
};

// Of the options: sampling, tokens_max, stops and ignore_eos. Reads the prompt in pieces of `chunk` rows.
// Uses sequence 0, whose cache it empties first.
PlainText plain_generate(CachedLayers& layers, std::span<const int32_t> prompt, const RequestOptions& options,
                         size_t chunk = 512);

}  // namespace butterfly::runtime::testing
