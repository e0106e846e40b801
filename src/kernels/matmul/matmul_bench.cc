// Products at the shapes of a 1.1B Llama: GB/s of weights for one row, GOP/s for many.
#include <benchmark/benchmark.h>

#include <vector>

#include "base/rng.h"
#include "kernels/matmul/matmul.h"
#include "kernels/panels/pack_table.h"
#include "kernels/quant/quant.h"
#include "kernels/simd/target.h"
#include "tensor/huge_pages.h"

namespace butterfly::kernels {
namespace {

constexpr size_t kRows = 5632, kCols = 2048;
constexpr size_t kCachedRows = 256;  // of at most 2 MiB

// Several copies of one matrix, together larger than most caches, so that one row means streaming from
// memory.
std::vector<PackedMatrix> matrices(DType dtype, size_t rows, size_t copies) {
  Tensor w = Tensor::zeros(dtype, {static_cast<int64_t>(rows), kCols});
  std::vector<float> row(kCols);
  const size_t row_bytes = w.bytes() / rows;
  for (size_t i = 0; i < kCols; ++i) row[i] = random_normal(1, 1, i);
  from_float(dtype, row.data(), w.raw(), kCols);
  for (size_t r = 1; r < rows; ++r) std::copy_n(w.raw(), row_bytes, w.raw() + r * row_bytes);
  std::vector<PackedMatrix> all;
  for (size_t i = 0; i < copies; ++i) all.emplace_back(w);
  huge_pages::wait_settled(std::chrono::seconds(60));
  return all;
}

void BM_Matmul(benchmark::State& state, DType dtype, size_t m, size_t rows, size_t copies) {
  const auto weights = matrices(dtype, rows, copies);
  const size_t stride = act_layout(weights[0].act(), kCols).row_bytes;
  const Buffer acts = Buffer::allocate(m * stride);
  std::vector<float> x(kCols, 0.5f), y(m * rows);
  for (size_t i = 0; i < m; ++i) {
    if (weights[0].act() == ActKind::kF32) {
      std::copy(x.begin(), x.end(), reinterpret_cast<float*>(acts.data() + i * stride));
    } else {
      quantize_activation(weights[0].act(), x.data(), kCols, acts.data() + i * stride);
    }
  }
  size_t next = 0;
  for (auto _ : state) {
    matmul(weights[next], acts.data(), stride, m, y.data(), rows, 0, rows);
    next = (next + 1) % weights.size();
    benchmark::DoNotOptimize(y.data());
  }
  const double runs = static_cast<double>(state.iterations());
  state.counters["GB/s"] =
      benchmark::Counter(runs * static_cast<double>(weights[0].bytes()) / 1e9, benchmark::Counter::kIsRate);
  state.counters["GOP/s"] = benchmark::Counter(runs * 2.0 * static_cast<double>(rows * kCols * m) / 1e9,
                                               benchmark::Counter::kIsRate);
  state.SetLabel(target_name());
}

[[maybe_unused]] const bool kRegistered = [] {
  std::vector<DType> types = {DType::kQ2_K};  // and one without panels
  for (const PackFormat& format : pack_table())
    if (can_quantize(format.dtype)) types.push_back(format.dtype);
  for (DType dtype : types)
    for (size_t m : {1, 4, 8, 16, 32, 64, 256}) {
      const std::string name = "matmul/" + std::string(dtype_name(dtype)) + "/rows:" + std::to_string(m);
      // 512 MB of weights for one row.
      const size_t bytes = *dtype_bytes(dtype, kRows * kCols);
      const size_t copies = m == 1 ? (size_t{512} << 20) / bytes + 1 : 1;
      benchmark::RegisterBenchmark(name.c_str(), BM_Matmul, dtype, m, kRows, copies)
          ->Unit(benchmark::kMicrosecond);
      if (m > 1) continue;
      // What one row takes when memory does not count.
      benchmark::RegisterBenchmark((name + "/cached").c_str(), BM_Matmul, dtype, m, kCachedRows, size_t{1})
          ->Unit(benchmark::kMicrosecond);
    }
  return true;
}();

}  // namespace
}  // namespace butterfly::kernels
