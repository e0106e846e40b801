// Rows to floats and back, one core. items = values; bytes = floats written (dequantize) or read (quantize).
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/quant/quant.h"

namespace butterfly::kernels {
namespace {

constexpr size_t kValues =
    size_t{1} << 16;  // 256 kB of floats: in cache, so that the code is measured and not the memory

std::vector<float> normal_row() {
  std::vector<float> row(kValues);
  for (size_t i = 0; i < kValues; ++i) row[i] = random_normal(1, 0, i);
  return row;
}

void count(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kValues));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kValues * sizeof(float)));
}

void quantize(benchmark::State& state, DType dtype) {
  const auto row = normal_row();
  std::vector<std::byte> bytes(*dtype_bytes(dtype, kValues));
  for (auto _ : state) {
    from_float(dtype, row.data(), bytes.data(), kValues);
    benchmark::DoNotOptimize(bytes.data());
    benchmark::ClobberMemory();
  }
  count(state);
}

void dequantize(benchmark::State& state, DType dtype) {
  std::vector<float> row = normal_row();
  std::vector<std::byte> bytes(*dtype_bytes(dtype, kValues));
  if (can_quantize(dtype)) from_float(dtype, row.data(), bytes.data(), kValues);
  for (auto _ : state) {
    to_float(dtype, bytes.data(), row.data(), kValues);
    benchmark::DoNotOptimize(row.data());
    benchmark::ClobberMemory();
  }
  count(state);
}

const int kRegistered = [] {
  for (const DTypeInfo& info : dtype_table()) {
    const bool plain = info.dtype == DType::kF16 || info.dtype == DType::kBF16;
    if (!plain && !info.quantised()) continue;
    benchmark::RegisterBenchmark(("dequantize/" + std::string(info.name)).c_str(), dequantize, info.dtype);
    if (can_quantize(info.dtype))
      benchmark::RegisterBenchmark(("quantize/" + std::string(info.name)).c_str(), quantize, info.dtype);
  }
  return 0;
}();

}  // namespace
}  // namespace butterfly::kernels
