// Times prompts and generation the way llama-bench does, so that figures can be compared.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "runtime/layers/cached_layers.h"

namespace butterfly::runtime {

// Either a prompt of n_prompt tokens, or n_gen tokens one after the other, in `streams` sequences at once,
// each behind `depth` tokens of context.
struct BenchmarkTest {
  size_t n_prompt = 0;
  size_t n_gen = 0;
  size_t depth = 0;
  size_t streams = 1;

  std::string name() const;  // "pp512", "tg128", "tg128 @ d2048", "tg128 x 4"
  size_t tokens() const { return (n_prompt + n_gen) * streams; }
  size_t positions() const { return (n_prompt + n_gen + depth); }  // of one stream
};

struct BenchmarkResult {
  BenchmarkTest test;
  std::vector<double> seconds;  // one per repetition
  graph::Cost cost;             // of one repetition
  std::vector<double> rates() const;
  double mean() const;    // tokens/s
  double stddev() const;  // of the sample
  double median() const;
};

// One untimed run unless `warm_up` is false, then `repetitions` timed ones. Tokens are arbitrary; logits are
// computed as a server would: of the last prompt token, and of every generated one. `keep_going` is asked
// between runs; false ends early.
BenchmarkResult run_benchmark(CachedLayers& layers, const BenchmarkTest& test, size_t repetitions,
                              const std::function<bool()>& keep_going, bool warm_up = true);

}  // namespace butterfly::runtime
