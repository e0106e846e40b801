// The products of GPT-2 124M (4 x 64 tokens), a small image network and ResNet-50's last layer against
// oneDNN, OpenBLAS and BLIS, interleaved.
#include <fmt/format.h>

#include "base/rng.h"
#include "race.h"
#include "races.h"
#include "rivals.h"
#include "tensor/buffer.h"

namespace butterfly::bench {
namespace {

struct Shape {
  const char* name;
  size_t m, out, in;  // of the layer: x [m, in], W [out, in]
};
constexpr Shape kShapes[] = {
    {"gpt2 qkv", 256, 2304, 768},  {"gpt2 projection", 256, 768, 768}, {"gpt2 up", 256, 3072, 768},
    {"gpt2 down", 256, 768, 3072}, {"gpt2 head, 1/8", 256, 6283, 768}, {"mnist fc1", 64, 128, 9216},
    {"mnist fc2", 64, 10, 128},    {"resnet fc", 8, 1000, 2048},       {"resnet fc, 64", 64, 1000, 2048},
    {"one row", 1, 4096, 4096},    {"8 rows", 8, 4096, 4096},          {"1024 cubed", 1024, 1024, 1024},
};

Buffer random_buffer(size_t count, uint64_t seed) {
  Buffer buffer = Buffer::allocate(count * sizeof(float));
  auto* values = reinterpret_cast<float*>(buffer.data());
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(random_u64(seed, 1, i) % 2001) / 1000 - 1;
  return buffer;
}
const float* floats(const Buffer& buffer) { return reinterpret_cast<const float*>(buffer.data()); }

}  // namespace

void gemm_race(const RaceOptions& options) {
  auto rivals = gemm_rivals();
  for (int threads : options.threads) {
    const double peak = fma_peak(threads);
    ThreadPool pool(static_cast<size_t>(threads));
    fmt::print("\nf32 products, {} thread(s), FMA peak {:.0f} GFLOP/s\n{:<18}{:>10}{:>9}{:>7}", threads,
               peak / 1e9, "shape", "", "ours", "peak");
    for (const auto& rival : rivals) fmt::print("{:>10}", rival->name());
    fmt::print("{:>10}\n", "ratio");
    for (const Shape& s : kShapes) {
      if (!options.only.empty() && std::string(s.name).find(options.only) == std::string::npos) continue;
      const Buffer x = random_buffer(s.m * s.in, 1), w = random_buffer(s.out * s.in, 2),
                   dy = random_buffer(s.m * s.out, 3);
      const Buffer c = random_buffer(std::max({s.m * s.out, s.m * s.in, s.out * s.in}), 4);
      auto* to = reinterpret_cast<float*>(c.data());
      const std::pair<const char*, kernels::Gemm> jobs[] = {
          {"X W^T", {s.m, s.out, s.in, {floats(x), s.in}, {floats(w), s.in, true}, to, s.out}},
          {"dY W", {s.m, s.in, s.out, {floats(dy), s.out}, {floats(w), s.in}, to, s.in}},
          {"dY^T X", {s.out, s.in, s.m, {floats(dy), s.out, true}, {floats(x), s.in}, to, s.in, true}},
      };
      for (const auto& [name, job] : jobs) {
        std::vector<Runner> runners = {{"ours", [&] { gemm(job, pool); }}};
        for (const auto& rival : rivals) {
          rival->set_threads(threads);
          runners.push_back({rival->name(), [&] {
                               rival->set_threads(threads);
                               rival->run(job);
                             }});
        }
        const auto seconds = race(runners, options.rounds, options.seconds, options.cpu_time);
        const double flops = 2.0 * double(job.m) * double(job.n) * double(job.k);
        double best = 1e30;
        fmt::print("{:<18}{:>10}{:>9.1f}{:>6.0f}%", s.name, name, flops / seconds[0] / 1e9,
                   100 * flops / seconds[0] / peak);
        for (size_t i = 1; i < seconds.size(); ++i) {
          fmt::print("{:>10.1f}", flops / seconds[i] / 1e9);
          best = std::min(best, seconds[i]);
        }
        fmt::print("{:>9.2f}x\n", rivals.empty() ? 1.0 : best / seconds[0]);
        std::fflush(stdout);
      }
    }
  }
}

}  // namespace butterfly::bench
