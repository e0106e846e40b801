// roofline [SECONDS]: every kernel of a decode step and of a prompt against what this machine can do,
// measured in turns in one run: a slow spell of the machine meets the kernel and its limit alike. Prints
// Markdown.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/rng.h"
#include "base/thread_pool.h"
#include "kernels/attention/attention.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/matmul/matmul.h"
#include "kernels/norm/rms_norm.h"
#include "kernels/panels/pack_table.h"
#include "kernels/probe/memory_loops.h"
#include "kernels/probe/peak_loops.h"
#include "kernels/quant/quant.h"
#include "kernels/simd/target.h"
#include "tensor/huge_pages.h"

using namespace butterfly;

namespace {

// The feed-forward matrix of a 1.1B Llama.
constexpr size_t kRows = 5632, kCols = 2048;
constexpr size_t kRounds = 7;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Floats in the kind of memory that weights are in: aligned, huge pages where the system has them.
class Floats {
 public:
  explicit Floats(size_t count) : memory_(Buffer::allocate(count * sizeof(float))) {
    std::fill_n(reinterpret_cast<float*>(memory_.data()), count, 0.5f);
  }
  float& operator[](size_t i) { return reinterpret_cast<float*>(memory_.data())[i]; }

 private:
  Buffer memory_;
};

// Something to time: does its work once and returns the bytes or operations that were.
using Work = std::function<double()>;

// Units per second of each, in turns: the median over the rounds.
std::vector<double> rates(const std::vector<Work>& works, double seconds) {
  std::vector<std::vector<double>> samples(works.size());
  for (size_t round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < works.size(); ++i) {
      double units = 0;
      const double begin = now(), enough = begin + seconds / kRounds / static_cast<double>(works.size());
      do units += works[i]();
      while (now() < enough);
      samples[i].push_back(units / (now() - begin));
    }
  std::vector<double> medians;
  for (auto& values : samples) {
    std::nth_element(values.begin(), values.begin() + kRounds / 2, values.end());
    medians.push_back(values[kRounds / 2]);
  }
  return medians;
}

class Bench {
 public:
  Bench(size_t threads, double seconds) : pool_(threads), seconds_(seconds), plain_(kPlainFloats) {}

  void matmul_rows(DType dtype, const std::vector<size_t>& row_counts) {
    const kernels::PackedMatrix one = matrix(dtype);
    const size_t copies = (size_t{384} << 20) / one.bytes() + 1;  // more than a core's share of the caches
    std::vector<kernels::PackedMatrix> weights;
    for (size_t i = 0; i < copies; ++i) weights.push_back(matrix(dtype));
    std::string cells;
    const bool floats = one.act() == kernels::ActKind::kF32;
    for (const size_t m : row_counts) {
      const bool streams = m == 1;
      size_t next = 0;
      const std::vector<double> speed =
          rates({product(weights, m, next, streams), streams  ? read()
                                                     : floats ? multiply_adds()
                                                              : byte_products()},
                seconds_);
      cells += fmt::format(" {:.1f} ({:.0f} %) |", speed[0] / 1e9, 100 * speed[0] / speed[1]);
    }
    fmt::print("| matmul {} |{}\n", dtype_name(dtype), cells);
    std::fflush(stdout);
  }

  // One query per head against 4096 cached positions: the cache is streamed. And 64 queries: arithmetic.
  void attention(DType dtype) {
    constexpr size_t kHead = 64, kLength = 4096, kHeads = 256, kPages = kLength / kernels::kKvPage;
    const kernels::KvLayout layout{dtype, kHead};
    const size_t head_bytes = kPages * layout.page_bytes();
    const Buffer cache = Buffer::allocate(kHeads * head_bytes);
    std::vector<float> q(kernels::kQueriesMax * kHead), out(kHeads * q.size());
    for (size_t i = 0; i < q.size(); ++i) q[i] = random_normal(1, 1, i);
    for (size_t p = 0; p < kHeads * kLength; ++p)
      kernels::kv_store(layout, cache.data() + p / kernels::kKvPage * layout.page_bytes(),
                        p % kernels::kKvPage, &q[p % kernels::kQueriesMax * kHead],
                        &q[(p + 1) % kernels::kQueriesMax * kHead]);
    std::vector<uint32_t> ids(kPages);
    for (uint32_t i = 0; i < kPages; ++i) ids[i] = i;
    const size_t scratch_bytes = kernels::attention_scratch_bytes(layout);
    const Buffer scratch = Buffer::allocate(pool_.size() * scratch_bytes);
    const auto attend = [&](size_t queries, size_t heads) {
      pool_.run([&](size_t worker) {
        for (size_t head = worker; head < heads; head += pool_.size()) {
          std::vector<kernels::AttentionQuery> rows;
          for (size_t i = 0; i < queries; ++i)
            rows.push_back({&q[i * kHead], &out[head * q.size() + i * kHead], kLength - 1});
          kernels::attend(layout, {.scale = 0.125f},
                          {cache.data() + head * head_bytes, layout.page_bytes(), ids.data()}, rows.data(),
                          queries, scratch.data() + worker * scratch_bytes);
        }
      });
    };
    const auto streaming = [&](size_t queries) {
      const Work decode = [&] { return attend(queries, kHeads), static_cast<double>(kHeads * head_bytes); };
      const std::vector<double> speed = rates({decode, read()}, seconds_);
      return fmt::format("{:.1f} GB/s ({:.0f} %)", speed[0] / 1e9, 100 * speed[0] / speed[1]);
    };
    const Work prompt = [&] {
      return attend(64, pool_.size()), 4.0 * kLength * kHead * 64 * static_cast<double>(pool_.size());
    };
    const std::vector<double> many = rates({prompt, multiply_adds()}, seconds_);
    fmt::print("| attention, {} cache | {} | {} | {:.0f} GFLOP/s ({:.0f} %) |\n", dtype_name(dtype),
               streaming(1), streaming(8), many[0] / 1e9, 100 * many[0] / many[1]);
    std::fflush(stdout);
  }

  // Values through memory: `bytes_per_value` read and written.
  void pass(const char* name, size_t bytes_per_value,
            void (*kernel)(const float*, const float*, float*, size_t)) {
    Floats other(kPassFloats), out(kPassFloats);
    const Work work = [&] {
      pool_.parallel_for(kPassFloats, 4096, [&](size_t begin, size_t end) {
        for (size_t at = begin; at < end; at += 2048)
          kernel(&plain_[at], &other[at], &out[at], std::min<size_t>(2048, end - at));
      });
      return static_cast<double>(kPassFloats * bytes_per_value);
    };
    const Work limit = [&] {
      pool_.parallel_for(kPassFloats, 4096, [&](size_t begin, size_t end) {
        if (bytes_per_value == 12) {
          kernels::merge_memory(&plain_[begin], &other[begin], &out[begin], end - begin,
                                kernels::StoreKind::kPlain);
        } else {
          kernels::copy_memory(&plain_[begin], &out[begin], end - begin, kernels::StoreKind::kPlain);
        }
      });
      return static_cast<double>(kPassFloats * (bytes_per_value == 12 ? 12 : 8));
    };
    const std::vector<double> speed = rates({work, limit}, seconds_);
    fmt::print("| {} | {:.1f} GB/s ({:.0f} %) | | |\n", name, speed[0] / 1e9, 100 * speed[0] / speed[1]);
    std::fflush(stdout);
  }

  void limits() {
    const std::vector<double> speed = rates({read(), multiply_adds(), byte_products()}, seconds_);
    fmt::print("Limits: DRAM read {:.1f} GB/s, f32 multiply-add {:.0f} GFLOP/s, int8 ({}) {:.0f} GOP/s.\n\n",
               speed[0] / 1e9, speed[1] / 1e9, kernels::int8_instruction(), speed[2] / 1e9);
  }

 private:
  static constexpr size_t kPlainFloats = size_t{96} << 20;
  static constexpr size_t kPassFloats = size_t{32} << 20;

  static kernels::PackedMatrix matrix(DType dtype) {
    Tensor w = Tensor::zeros(dtype, {kRows, kCols});
    std::vector<float> row(kCols);
    const size_t row_bytes = w.bytes() / kRows;
    for (size_t i = 0; i < kCols; ++i) row[i] = random_normal(1, 1, i);
    kernels::from_float(dtype, row.data(), w.raw(), kCols);
    for (size_t r = 1; r < kRows; ++r) std::copy_n(w.raw(), row_bytes, w.raw() + r * row_bytes);
    kernels::PackedMatrix packed(w);
    huge_pages::wait_settled(std::chrono::seconds(60));
    return packed;
  }

  // Bytes of weights where they are streamed, else operations.
  Work product(const std::vector<kernels::PackedMatrix>& weights, size_t m, size_t& next, bool streams) {
    const size_t stride = kernels::act_layout(weights[0].act(), kCols).row_bytes;
    auto acts = std::make_shared<Buffer>(Buffer::allocate(m * stride));
    auto y = std::make_shared<std::vector<float>>(m * kRows);
    const std::vector<float> x(kCols, 0.5f);
    for (size_t i = 0; i < m; ++i) {
      if (weights[0].act() == kernels::ActKind::kF32) {
        std::copy(x.begin(), x.end(), reinterpret_cast<float*>(acts->data() + i * stride));
      } else {
        kernels::quantize_activation(weights[0].act(), x.data(), kCols, acts->data() + i * stride);
      }
    }
    return [=, this, &weights, &next] {
      const kernels::PackedMatrix& w = weights[next++ % weights.size()];
      pool_.parallel_for(kRows, kernels::kPanelRows, [&](size_t begin, size_t end) {
        kernels::matmul(w, acts->data(), stride, m, y->data(), kRows, begin, end);
      });
      return streams ? static_cast<double>(w.bytes()) : 2.0 * kRows * kCols * static_cast<double>(m);
    };
  }

  Work read() {
    return [this] {
      pool_.parallel_for(kPlainFloats, 4096, [&](size_t begin, size_t end) {
        const volatile float sink = kernels::read_memory(&plain_[begin], end - begin);
        static_cast<void>(sink);
      });
      return 4.0 * kPlainFloats;
    };
  }

  Work on_every_thread(uint64_t (*loop)(uint64_t)) {
    return [this, loop] {
      std::vector<uint64_t> done(pool_.size());
      pool_.run([&](size_t worker) { done[worker] = loop(20000); });
      uint64_t sum = 0;
      for (const uint64_t n : done) sum += n;
      return static_cast<double>(sum);
    };
  }
  Work multiply_adds() { return on_every_thread(kernels::run_fma); }
  Work byte_products() { return on_every_thread(kernels::run_int8); }

  ThreadPool pool_;
  double seconds_;
  Floats plain_;
};

void run(size_t threads, double seconds) {
  Bench bench(threads, seconds);
  fmt::print("\n### {} thread{}, target {}\n\n", threads, threads > 1 ? "s" : "", kernels::target_name());
  bench.limits();
  fmt::print(
      "| [{} x {}] | 1 row: GB/s (of DRAM read) | 4 rows: GOP/s (of peak) | 8 rows | 16 rows | 64 rows | 512 "
      "rows |\n"
      "|---|---|---|---|---|---|---|\n",
      kRows, kCols);
  for (const kernels::PackFormat& format : kernels::pack_table())
    if (kernels::can_quantize(format.dtype)) bench.matmul_rows(format.dtype, {1, 4, 8, 16, 64, 512});
  fmt::print(
      "\n| kernel | streaming, one query per KV head (of the same traffic without arithmetic) "
      "| 8 queries | 64 "
      "queries (of f32 peak) |\n|---|---|---|---|\n");
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kQ8_0}) bench.attention(dtype);
  bench.pass("add", 12,
             [](const float* a, const float* b, float* out, size_t n) { kernels::add(a, b, out, n); });
  bench.pass("rms_norm, rows of 2048", 8, [](const float* a, const float* b, float* out, size_t n) {
    kernels::rms_norm(a, b, 1e-5f, out, n);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.5;
  for (size_t threads = 1; threads <= default_thread_count(); threads *= 2) run(threads, seconds);
}
