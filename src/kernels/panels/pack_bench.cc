// Packing at the shape of a 1.1B Llama's matrices: GB/s of file bytes, plain and by vectors.
#include <benchmark/benchmark.h>

#include <string>

#include "kernels/panels/pack_table.h"
#include "tensor/tensor.h"

namespace butterfly::kernels {
namespace {

void BM_Pack(benchmark::State& state, const PackFormat& format, bool full) {
  constexpr size_t kRows = 5632, kCols = 2048;
  const Tensor w = Tensor::zeros(format.dtype, {kRows, kCols});
  const size_t row_bytes = w.bytes() / kRows, panel_bytes = format.panel_bytes(kCols);
  const Buffer panels = Buffer::allocate(kRows / kPanelRows * panel_bytes);
  for (auto _ : state)
    for (size_t i = 0; i < kRows / kPanelRows; ++i) {
      const std::byte* from = w.raw() + i * kPanelRows * row_bytes;
      std::byte* to = panels.data() + i * panel_bytes;
      if (full) {
        format.pack_full({from, row_bytes, kCols, to});
      } else {
        format.pack(from, row_bytes, kPanelRows, kCols, to);
      }
    }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(w.bytes()));
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const PackFormat& format : pack_table())
    for (bool full : {false, true}) {
      const std::string name = "pack/" + std::string(dtype_name(format.dtype)) + (full ? "/full" : "/plain");
      benchmark::RegisterBenchmark(name.c_str(), BM_Pack, format, full)->Unit(benchmark::kMicrosecond);
    }
  return true;
}();

}  // namespace
}  // namespace butterfly::kernels
