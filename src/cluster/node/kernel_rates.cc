#include "cluster/node/kernel_rates.h"

#include <time.h>

#include <algorithm>
#include <chrono>

#include "base/cgroup.h"
#include "base/cpu.h"
#include "kernels/matmul/matmul.h"
#include "kernels/quant/quant.h"

namespace butterfly::cluster {
namespace {

using kernels::PackedMatrix;

constexpr size_t kRows = 4096, kCols = 4096;  // of one matrix, as in a model of 7B
constexpr size_t kManyRows = 256;             // as in a prompt

// So much that reading it round and round finds next to nothing in a last cache of this size. Twice the cache
// is not enough where lines are not replaced in the order of their use; of very large caches twice has to do.
uint64_t bytes_past_caches(uint64_t l3_bytes) {
  return std::max(2 * l3_bytes, std::min<uint64_t>(8 * l3_bytes, uint64_t{512} << 20));
}

// Copies of one matrix, packed by all threads, together larger than the last cache.
std::vector<PackedMatrix> matrices(ThreadPool& pool, DType type, uint64_t bytes_wanted) {
  std::vector<float> row(kCols);
  for (size_t i = 0; i < kCols; ++i) row[i] = static_cast<float>(i % 31) / 16.0f - 1;
  Tensor weights = Tensor::zeros(type, {kRows, kCols});
  const size_t row_bytes = weights.bytes() / kRows;
  kernels::from_float(type, row.data(), weights.raw(), kCols);
  for (size_t r = 1; r < kRows; ++r) std::copy_n(weights.raw(), row_bytes, weights.raw() + r * row_bytes);
  if (bytes_wanted == 0) bytes_wanted = bytes_past_caches(cache_sizes().l3_bytes);
  const uint64_t wanted = std::clamp<uint64_t>(bytes_wanted, uint64_t{64} << 20,
                                               std::max(memory_limit_bytes() / 8, uint64_t{64} << 20));
  std::vector<PackedMatrix> all;
  for (uint64_t bytes = 0; bytes < wanted; bytes += all.back().bytes()) {
    all.push_back(PackedMatrix::uninitialised(weights));
    pool.parallel_for(all.back().panels(), 1,
                      [&](size_t begin, size_t end) { all.back().pack_panels(weights, begin, end); });
  }
  return all;
}

// Under a quota the time in which this process ran, shared by its threads; else the time of day.
double seconds_now(bool quota, size_t threads) {
  timespec t{};
  ::clock_gettime(quota ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  const double seconds = static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  return quota ? seconds / static_cast<double>(threads) : seconds;
}

// Products per second, matrices in turn. The middle one decides: a step waits for all of its products, the
// slow ones too, and the fastest are those whose weights happened to be in a cache.
double products_per_s(ThreadPool& pool, const std::vector<PackedMatrix>& all, size_t rows,
                      std::chrono::milliseconds time) {
  using Clock = std::chrono::steady_clock;
  const bool quota = cgroup_cpu_quota().value_or(1e9) < static_cast<double>(pool.size());
  const size_t stride = kernels::act_layout(all[0].act(), kCols).row_bytes;
  const Buffer acts = Buffer::allocate(rows * std::max(stride, kCols * sizeof(float)));
  const size_t act_stride = all[0].act() == kernels::ActKind::kF32 ? kCols * sizeof(float) : stride;
  std::vector<float> y(rows * kRows);
  std::vector<double> times;
  size_t next = 0;
  const auto start = Clock::now();
  do {
    const PackedMatrix& w = all[next];
    next = (next + 1) % all.size();
    const double before = seconds_now(quota, pool.size());
    pool.parallel_for(w.panels(), 1, [&](size_t begin, size_t end) {
      kernels::matmul(w, acts.data(), act_stride, rows, y.data(), kRows, begin * kernels::kPanelRows,
                      std::min(end * kernels::kPanelRows, kRows));
    });
    times.push_back(std::max(seconds_now(quota, pool.size()) - before, 1e-9));
  } while (Clock::now() - start < time || times.size() < 4);
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return 1 / *middle;
}

}  // namespace

KernelRates measure_kernels(ThreadPool& pool, DType type, const KernelMeasureOptions& options) {
  const std::vector<PackedMatrix> all = matrices(pool, type, options.bytes);
  KernelRates rates;
  rates.weight_bytes_per_s = products_per_s(pool, all, 1, options.time) * static_cast<double>(all[0].bytes());
  rates.operations_per_s =
      products_per_s(pool, all, kManyRows, options.time) * 2.0 * kRows * kCols * kManyRows;
  return rates;
}

void calibrate(NodeSpec& node, const KernelRates& rates, DType type) {
  node.memory_efficiency = rates.weight_bytes_per_s / node.memory.with(node.threads);
  const bool quantised = kernels::act_kind(type) != kernels::ActKind::kF32;
  node.compute_efficiency = rates.operations_per_s / (quantised ? node.int8 : node.f32).with(node.threads);
}

}  // namespace butterfly::cluster
