// Requests of many kinds, and everything of their answers that must be equal however they were computed. For
// tests.
#pragma once
#include <bit>
#include <string>
#include <vector>

#include "runtime/engine/testing/collector.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime::testing {

// Everything that is to be equal.
struct Bits {
  std::vector<int32_t> tokens;
  std::vector<uint32_t> logprobs;
  std::string text;
  friend bool operator==(const Bits&, const Bits&) = default;
};

inline Bits bits_of(const Collector& sink) {
  Bits bits{sink.tokens(), {}, sink.text()};
  for (const TokenEvent& event : sink.events()) {
    bits.logprobs.push_back(std::bit_cast<uint32_t>(event.logprob));
    for (const TokenLogprob& top : event.top) {
      bits.logprobs.push_back(static_cast<uint32_t>(top.token));
      bits.logprobs.push_back(std::bit_cast<uint32_t>(top.logprob));
    }
  }
  return bits;
}

// Of different lengths; some begin alike; greedy, warm and hot. For a vocabulary of 320.
inline EngineRequest mixed_request(size_t i) {
  EngineRequest r;
  r.prompt = some_tokens(40 + 3 * i, 320);
  if (i % 3 == 0)
    for (size_t p = 33; p < r.prompt.size(); ++p) r.prompt[p] = static_cast<int32_t>((p * 7 + i) % 320);
  r.tokens_max = 24;
  r.ignore_eos = true;
  r.top_logprobs = 2;
  r.sampling.temperature = i % 2 == 0 ? 0 : 0.9f;
  r.sampling.seed = i;
  r.sampling.frequency_penalty = i % 4 == 3 ? 0.2f : 0.0f;
  return r;
}

}  // namespace butterfly::runtime::testing
