// Kernels that only pass through memory (optimizer steps, gradients of activations, sums) against loops that
// move as many bytes and do nothing else.
#include <fmt/format.h>

#include "kernels/elementwise/activation_backward.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/norm_backward.h"
#include "kernels/optim/optimizer_update.h"
#include "kernels/probe/memory_loops.h"
#include "race.h"
#include "races.h"
#include "tensor/buffer.h"

namespace butterfly::bench {
namespace {

// A value that the compiler must believe to be used.
void sink(float value) { [[maybe_unused]] volatile float used = value; }

}  // namespace

void memory_race(const RaceOptions& options) {
  using namespace kernels;
  constexpr size_t kCount = size_t{24} << 20;  // 96 MiB per array
  constexpr size_t kCols = 768, kRows = kCount / kCols;
  std::vector<Buffer> buffers;
  for (int i = 0; i < 4; ++i) {
    buffers.push_back(Buffer::allocate(kCount * sizeof(float)));
    std::fill_n(reinterpret_cast<float*>(buffers.back().data()), kCount, 0.01f);
  }
  const auto array = [&](size_t i) { return reinterpret_cast<float*>(buffers[i].data()); };
  float *a = array(0), *b = array(1), *c = array(2), *d = array(3);
  std::vector<float> sums(kCols), squares((kCount + kNormBlock - 1) / kNormBlock);
  for (int threads : options.threads) {
    ThreadPool pool(static_cast<size_t>(threads));
    const auto split = [&pool](auto f) {
      return [&pool, f] {
        pool.parallel_for(kCount, 4096, [&](size_t begin, size_t end) { f(begin, end - begin); });
      };
    };
    struct Row {
      const char* name;
      double arrays;  // read plus written
      std::function<void()> run;
    };
    // The second loop reads two arrays and writes one of them, as an update in place does.
    const std::vector<Row> rows = {
        {"copy, nothing else", 2,
         split([=](size_t i, size_t n) { copy_memory(a + i, b + i, n, StoreKind::kPlain); })},
        {"in place, nothing else", 3, split([=](size_t i, size_t n) { add(a + i, b + i, b + i, n); })},
        {"read, nothing else", 1, split([=](size_t i, size_t n) { sink(read_memory(a + i, n)); })},
        {"adam_update", 7, [&] { adam_update({.decay = 0.01}, a, b, c, d, kCount, pool); }},
        {"sgd_update", 5, [&] { sgd_update({.momentum = 0.9}, a, b, c, kCount, pool); }},
        {"relu_backward", 3, split([=](size_t i, size_t n) { relu_backward(a + i, b + i, b + i, n); })},
        {"gelu_backward", 3, split([=](size_t i, size_t n) { gelu_backward(a + i, b + i, b + i, n); })},
        {"column_sums", 1, [&] { column_sums(a, kRows, kCols, kCols, false, sums.data(), pool); }},
        {"sum_squares_blocks", 1, [&] { sum_squares_blocks(a, kCount, squares.data(), pool); }},
    };
    std::vector<Runner> runners;
    for (const Row& row : rows) runners.push_back({row.name, row.run});
    const auto seconds = race(runners, options.rounds, options.seconds, options.cpu_time);
    const auto rate = [&](size_t i) { return rows[i].arrays * kCount * sizeof(float) / seconds[i] / 1e9; };
    fmt::print("\nmemory, {} thread(s)\n{:<24}{:>8}{:>20}\n", threads, "", "GB/s", "of such a loop");
    for (size_t i = 0; i < rows.size(); ++i) {
      const double limit = rows[i].arrays == 1 ? rate(2) : std::max(rate(0), rate(1));
      fmt::print("{:<24}{:>8.1f}{:>19.0f}%\n", rows[i].name, rate(i), 100 * rate(i) / limit);
    }
  }
}

}  // namespace butterfly::bench
