// add, scale and dot against the memory bandwidth of the same run, and against plain loops.
//
// Each row takes turns between our kernel, loops that only move the same bytes in the same mix
// (memory_loops.h, memcpy), and two plain loops: compiled without vectorisation, and with all the compiler
// can do. Of each the fastest run counts. Time is CPU time of the slowest thread, so that other programs on
// the machine cost runs and not figures.
//
//   GB/s    bytes read and written by the kernel per second
//   limit   the same for the best loop that only moves bytes and leaves the result where the
//           kernel leaves it: in the caches if it fits there, else in memory
//   share   GB/s / limit, in percent
//   past    the rate of stores past the caches, where the kernel does not use them: faster for
//           the loop alone, slower with whoever reads the result next
//   scalar  times faster than the loop without vectorisation;  auto: than the vectorised one
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/probe/memory_loops.h"
#include "kernels/rows/reduce.h"
#include "kernels/testing/plain_loops.h"
#include "tensor/buffer.h"

namespace butterfly::kernels {
namespace {

using Loop = void (*)(const float* a, const float* b, float* out, size_t count);

#define BF_LOOP(...) \
  [](const float* a, const float* b, float* out, size_t n) { (void)a, (void)b, (void)out, __VA_ARGS__; }

struct Op {
  const char* name;
  size_t arrays;  // read or written
  Loop kernel;
  Loop scalar;
  Loop autovec;
  std::vector<Loop> limits;
  Loop past_caches;  // null where nothing is written
};

const std::vector<Op>& ops() {
  static const std::vector<Op> table = {
      {.name = "add",
       .arrays = 3,
       .kernel = BF_LOOP(add(a, b, out, n)),
       .scalar = BF_LOOP(scalar_loops::add(a, b, out, n)),
       .autovec = BF_LOOP(auto_loops::add(a, b, out, n)),
       .limits = {BF_LOOP(merge_memory(a, b, out, n, StoreKind::kPlain))},
       .past_caches = BF_LOOP(merge_memory(a, b, out, n, StoreKind::kStream))},
      {.name = "scale",
       .arrays = 2,
       .kernel = BF_LOOP(scale(a, 1.5f, out, n)),
       .scalar = BF_LOOP(scalar_loops::scale(a, 1.5f, out, n)),
       .autovec = BF_LOOP(auto_loops::scale(a, 1.5f, out, n)),
       .limits = {BF_LOOP(copy_memory(a, out, n, StoreKind::kPlain)),
                  BF_LOOP(std::memcpy(out, a, n * sizeof(float)))},
       .past_caches = BF_LOOP(copy_memory(a, out, n, StoreKind::kStream))},
      {.name = "dot",
       .arrays = 2,
       .kernel = BF_LOOP(benchmark::DoNotOptimize(dot(a, b, n))),
       .scalar = BF_LOOP(benchmark::DoNotOptimize(scalar_loops::dot(a, b, n))),
       .autovec = BF_LOOP(benchmark::DoNotOptimize(auto_loops::dot(a, b, n))),
       .limits = {BF_LOOP(benchmark::DoNotOptimize(read_memory2(a, b, n))),
                  BF_LOOP(benchmark::DoNotOptimize(read_memory(a, n) + read_memory(b, n)))},
       .past_caches = nullptr},
  };
  return table;
}

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Three arrays on huge pages, as large as the largest row so far.
struct Arrays {
  Buffer a, b, out;
  size_t count = 0;

  void reserve(size_t wanted) {
    if (wanted <= count) return;
    a = b = out = {};
    for (Buffer* buffer : {&a, &b, &out}) {
      *buffer = Buffer::allocate(wanted * sizeof(float));
      std::fill_n(reinterpret_cast<float*>(buffer->data()), wanted, 1.0f);
    }
    count = wanted;
  }
};

double seconds_of(ThreadPool& pool, Loop loop, const Arrays& arrays, size_t count) {
  std::vector<double> seconds(pool.size());
  pool.run([&](size_t w) {
    const size_t begin = count * w / pool.size() / 64 * 64;
    const size_t end = w + 1 == pool.size() ? count : count * (w + 1) / pool.size() / 64 * 64;
    const auto at = [&](const Buffer& buffer) { return reinterpret_cast<float*>(buffer.data()) + begin; };
    const double before = thread_cpu_seconds();
    loop(at(arrays.a), at(arrays.b), at(arrays.out), end - begin);
    seconds[w] = thread_cpu_seconds() - before;
  });
  return *std::max_element(seconds.begin(), seconds.end());
}

void elementwise(benchmark::State& state, const Op& op, size_t runs) {
  static Arrays arrays;
  const auto count = static_cast<size_t>(state.range(0));
  arrays.reserve(count);
  ThreadPool pool(static_cast<size_t>(state.range(1)));

  std::vector<Loop> loops = {op.kernel, op.scalar, op.autovec};
  loops.insert(loops.end(), op.limits.begin(), op.limits.end());
  if (op.past_caches != nullptr) loops.push_back(op.past_caches);
  std::vector<double> best(loops.size(), std::numeric_limits<double>::infinity());
  for (auto _ : state) {
    for (size_t i = 0; i < loops.size(); ++i) {
      // The caches need a few runs to forget the loop before: the first half does not count.
      for (size_t run = 0; run < runs; ++run) {
        const double seconds = seconds_of(pool, loops[i], arrays, count);
        if (run >= runs / 2) best[i] = std::min(best[i], seconds);
      }
    }
    state.SetIterationTime(best[0]);
  }

  const double bytes = static_cast<double>(count * op.arrays * sizeof(float));
  const bool streams = op.past_caches != nullptr && count / pool.size() * sizeof(float) >= kStreamBytes;
  const auto limits_end = best.begin() + static_cast<ptrdiff_t>(3 + op.limits.size() + (streams ? 1 : 0));
  const double limit = *std::min_element(best.begin() + 3, limits_end);
  state.counters["GB/s"] = bytes / best[0] / 1e9;
  state.counters["limit"] = bytes / limit / 1e9;
  state.counters["share"] = 100 * limit / best[0];
  state.counters["scalar"] = best[1] / best[0];
  state.counters["auto"] = best[2] / best[0];
  state.counters["past"] = op.past_caches != nullptr && !streams ? bytes / best.back() / 1e9 : 0;
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const Op& op : ops()) {
    for (const int count : {1'000'000, 100'000'000}) {
      const size_t runs = count == 1'000'000 ? 40 : 2;
      for (const int threads : {1, 2}) {
        benchmark::RegisterBenchmark(op.name,
                                     [&op, runs](benchmark::State& state) { elementwise(state, op, runs); })
            ->Args({count, threads})
            ->ArgNames({"elements", "threads"})
            ->Iterations(20)
            ->UseManualTime()
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace butterfly::kernels
