#include <benchmark/benchmark.h>

#include "tensor/tensor_pool.h"

namespace butterfly {
namespace {

TensorPool& shared_pool() {
  static TensorPool pool;
  return pool;
}

// One take and give-back of a buffer that is in the pool.
void BM_PoolHit(benchmark::State& state) {
  TensorPool& pool = shared_pool();
  const auto bytes = static_cast<size_t>(state.range(0));
  pool.allocate(bytes);
  for (auto _ : state) {
    const Buffer buffer = pool.allocate(bytes);
    benchmark::DoNotOptimize(buffer.data());
  }
}
BENCHMARK(BM_PoolHit)->Arg(256)->Arg(1 << 20);
BENCHMARK(BM_PoolHit)->Arg(1 << 20)->Threads(2)->UseRealTime();

void BM_PoolTensor(benchmark::State& state) {
  TensorPool& pool = shared_pool();
  for (auto _ : state) {
    const Tensor tensor = pool.tensor(DType::kF32, {32, 128});
    benchmark::DoNotOptimize(tensor.raw());
  }
}
BENCHMARK(BM_PoolTensor);

// What a hit saves.
void BM_SystemAllocate(benchmark::State& state) {
  for (auto _ : state) {
    const Buffer buffer = Buffer::allocate(static_cast<size_t>(state.range(0)));
    benchmark::DoNotOptimize(buffer.data());
  }
}
BENCHMARK(BM_SystemAllocate)->Arg(256)->Arg(1 << 20)->Arg(8 << 20);

void BM_Slice(benchmark::State& state) {
  const Tensor tensor = Tensor::zeros(DType::kF32, {32, 128});
  for (auto _ : state) {
    const Tensor view = tensor.slice(0, 3, 5);
    benchmark::DoNotOptimize(view.raw());
  }
}
BENCHMARK(BM_Slice);

}  // namespace
}  // namespace butterfly
