#include "runtime/measure/benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "base/rng.h"
#include "tensor/huge_pages.h"

namespace butterfly::runtime {
namespace {

// Memory on its way to huge pages is part of the warm-up: about 2 s per GB where they are cold.
constexpr std::chrono::seconds kSettleDeadline{60};

int32_t some_token(const CachedLayers& layers, size_t index) {
  return static_cast<int32_t>(random_u64(1, 0, index) % layers.model().config.vocab);
}

// `count` positions of every stream, from `begin` on, in full batches.
void read_in(CachedLayers& layers, size_t streams, size_t begin, size_t count) {
  std::vector<BatchRow> rows;
  for (uint32_t s = 0; s < streams; ++s)
    for (size_t i = 0; i < count; ++i) {
      rows.push_back({some_token(layers, i), s, static_cast<uint32_t>(begin + i), i + 1 == count});
      if (rows.size() == layers.rows_max() || i + 1 == count) {
        layers.run(rows);
        rows.clear();
      }
    }
}

void generate_all(CachedLayers& layers, size_t streams, size_t begin, size_t count) {
  std::vector<BatchRow> rows(streams);
  for (size_t i = 0; i < count; ++i) {
    for (uint32_t s = 0; s < streams; ++s)
      rows[s] = {some_token(layers, i + s), s, static_cast<uint32_t>(begin + i), true};
    layers.run(rows);
  }
}

void empty_cache(CachedLayers& layers) {
  for (size_t s = 0; s < layers.cache().sequences(); ++s) layers.cache().truncate(s, 0);
}

graph::Cost cost_of(const CachedLayers& layers, const BenchmarkTest& test) {
  graph::Cost cost;
  const size_t rows_max = layers.rows_max();
  for (size_t begin = 0; begin < test.n_prompt; begin += rows_max)
    cost += layers.cost(std::min(rows_max, test.n_prompt - begin), 1, test.depth + begin);
  for (size_t i = 0; i < test.n_gen; ++i) cost += layers.cost(1, 1, test.depth + i);
  return cost;
}

}  // namespace

std::string BenchmarkTest::name() const {
  std::string name = n_gen == 0 ? fmt::format("pp{}", n_prompt) : fmt::format("tg{}", n_gen);
  if (depth > 0) name += fmt::format(" @ d{}", depth);
  if (streams > 1) name += fmt::format(" x {}", streams);
  return name;
}

std::vector<double> BenchmarkResult::rates() const {
  std::vector<double> rates;
  for (double s : seconds) rates.push_back(static_cast<double>(test.tokens()) / s);
  return rates;
}

double BenchmarkResult::mean() const {
  const auto r = rates();
  return r.empty() ? 0 : std::accumulate(r.begin(), r.end(), 0.0) / static_cast<double>(r.size());
}

double BenchmarkResult::stddev() const {
  const auto r = rates();
  if (r.size() < 2) return 0;
  const double average = mean();
  double squares = 0;
  for (double rate : r) squares += (rate - average) * (rate - average);
  return std::sqrt(squares / static_cast<double>(r.size() - 1));
}

double BenchmarkResult::median() const {
  auto r = rates();
  if (r.empty()) return 0;
  std::sort(r.begin(), r.end());
  return r.size() % 2 == 1 ? r[r.size() / 2] : (r[r.size() / 2 - 1] + r[r.size() / 2]) / 2;
}

BenchmarkResult run_benchmark(CachedLayers& layers, const BenchmarkTest& test, size_t repetitions,
                              const std::function<bool()>& keep_going, bool warm_up) {
  BenchmarkResult result{.test = test, .seconds = {}, .cost = cost_of(layers, test)};
  for (size_t i = warm_up ? 0 : 1; i <= repetitions && keep_going(); ++i) {
    empty_cache(layers);
    if (test.depth > 0) read_in(layers, test.streams, 0, test.depth);
    const auto start = std::chrono::steady_clock::now();
    if (test.n_prompt > 0) read_in(layers, test.streams, test.depth, test.n_prompt);
    // The untimed run needs only a few tokens to warm up.
    const size_t n_gen = i == 0 ? std::min<size_t>(test.n_gen, 4) : test.n_gen;
    generate_all(layers, test.streams, test.depth + test.n_prompt, n_gen);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (i > 0) {
      result.seconds.push_back(spent.count());
    } else {
      huge_pages::wait_settled(kSettleDeadline);
    }
  }
  return result;
}

}  // namespace butterfly::runtime
