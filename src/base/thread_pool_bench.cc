#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <thread>

#include "base/mapped_file.h"
#include "base/thread_pool.h"

namespace butterfly {
namespace {

// Fork and join with nothing to do, job after job: what an op costs beyond its work.
void BM_EmptyRun(benchmark::State& state) {
  ThreadPool pool(static_cast<size_t>(state.range(0)));
  for (auto _ : state) pool.run([](size_t) {});
}
BENCHMARK(BM_EmptyRun)->Arg(1)->Arg(2)->UseRealTime();

// The same when every thread had gone to sleep in between.
void BM_RunAfterSleep(benchmark::State& state) {
  ThreadPool pool(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    state.PauseTiming();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    state.ResumeTiming();
    pool.run([](size_t) {});
  }
}
BENCHMARK(BM_RunAfterSleep)->Arg(2)->UseRealTime()->Iterations(200);

// CPU time of the whole process per second while a pool has nothing to do (cpu_per_second should be close to
// 0).
void BM_IdlePool(benchmark::State& state) {
  ThreadPool pool(2);
  pool.run([](size_t) {});
  const auto cpu_seconds = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  };
  const double before = cpu_seconds();
  for (auto _ : state) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  state.counters["cpu_per_second"] =
      (cpu_seconds() - before) / (0.5 * static_cast<double>(state.iterations()));
}
BENCHMARK(BM_IdlePool)->UseRealTime()->Iterations(2);

void BM_Guard(benchmark::State& state) {
  for (auto _ : state) MappedFile::guard([] { benchmark::ClobberMemory(); });
}
BENCHMARK(BM_Guard);

}  // namespace
}  // namespace butterfly
