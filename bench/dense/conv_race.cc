// Convolutions of ResNet-50 (8 images), a small MNIST network and MobileNet against oneDNN in its own
// layouts.
#include <fmt/format.h>

#include "conv_rival.h"
#include "race.h"
#include "races.h"
#include "rivals.h"
#include "tensor/buffer.h"

namespace butterfly::bench {
namespace {

struct Shape {
  const char* name;
  size_t batch, size, in, out, kernel, stride, pad, groups;
};
constexpr Shape kShapes[] = {
    {"resnet conv1 7x7", 8, 224, 3, 64, 7, 2, 3, 1},
    {"resnet 56 64-64 1x1", 8, 56, 64, 64, 1, 1, 0, 1},
    {"resnet 56 64-64 3x3", 8, 56, 64, 64, 3, 1, 1, 1},
    {"resnet 56 64-256 1x1", 8, 56, 64, 256, 1, 1, 0, 1},
    {"resnet 56 256-64 1x1", 8, 56, 256, 64, 1, 1, 0, 1},
    {"resnet 56 128 3x3 s2", 8, 56, 128, 128, 3, 2, 1, 1},
    {"resnet 56 256-512 s2", 8, 56, 256, 512, 1, 2, 0, 1},
    {"resnet 28 128 3x3", 8, 28, 128, 128, 3, 1, 1, 1},
    {"resnet 28 512-128 1x1", 8, 28, 512, 128, 1, 1, 0, 1},
    {"resnet 14 256 3x3", 8, 14, 256, 256, 3, 1, 1, 1},
    {"resnet 14 1024-256", 8, 14, 1024, 256, 1, 1, 0, 1},
    {"resnet 7 512 3x3", 8, 7, 512, 512, 3, 1, 1, 1},
    {"resnet 7 512-2048 1x1", 8, 7, 512, 2048, 1, 1, 0, 1},
    {"mnist 28 1-32 3x3", 64, 28, 1, 32, 3, 1, 0, 1},
    {"mnist 26 32-64 3x3", 64, 26, 32, 64, 3, 1, 0, 1},
    {"depthwise 56 128", 8, 56, 128, 128, 3, 1, 1, 128},
    {"depthwise 56 128 s2", 8, 56, 128, 128, 3, 2, 1, 128},
};

Buffer filled(size_t count) {
  Buffer buffer = Buffer::allocate(count * sizeof(float));
  auto* values = reinterpret_cast<float*>(buffer.data());
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 2001) / 1000 - 1;
  return buffer;
}

}  // namespace

void conv_race(const RaceOptions& options) {
  for (int threads : options.threads) {
    const double peak = fma_peak(threads);
    ThreadPool pool(static_cast<size_t>(threads));
    fmt::print("\nconv2d, {} thread(s), FMA peak {:.0f} GFLOP/s: ours (share of peak), oneDNN, ratio\n",
               threads, peak / 1e9);
    fmt::print("{:<22}{:>32}{:>32}{:>32}\n", "shape", "forward", "to data", "to weights");
    for (const Shape& s : kShapes) {
      if (!options.only.empty() && std::string(s.name).find(options.only) == std::string::npos) continue;
      const kernels::Conv2d c{.batch = s.batch,
                              .in_h = s.size,
                              .in_w = s.size,
                              .in_c = s.in,
                              .out_c = s.out,
                              .kernel_h = s.kernel,
                              .kernel_w = s.kernel,
                              .stride_h = s.stride,
                              .stride_w = s.stride,
                              .pad_top = s.pad,
                              .pad_left = s.pad,
                              .pad_bottom = s.pad,
                              .pad_right = s.pad,
                              .groups = s.groups};
      const Buffer xb = filled(c.x_count()), wb = filled(c.w_count()), yb = filled(c.y_count());
      auto* x = reinterpret_cast<float*>(xb.data());
      auto* w = reinterpret_cast<float*>(wb.data());
      auto* y = reinterpret_cast<float*>(yb.data());
      set_openmp_threads(threads);
      const auto rival = onednn_conv(c);
      const auto against = [&](std::function<void()> ours, std::function<void()> theirs) {
        std::vector<Runner> runners = {{"ours", std::move(ours)}};
        if (rival != nullptr) runners.push_back({"oneDNN", std::move(theirs)});
        const auto seconds = race(runners, options.rounds, options.seconds, options.cpu_time);
        fmt::print("{:>12.1f} ({:>3.0f}%)", c.flops() / seconds[0] / 1e9,
                   100 * c.flops() / seconds[0] / peak);
        if (rival != nullptr)
          fmt::print("{:>8.1f}{:>5.2f}x", c.flops() / seconds[1] / 1e9, seconds[1] / seconds[0]);
      };
      fmt::print("{:<22}", s.name);
      against([&] { conv2d_forward(c, x, w, {}, y, pool); }, [&] { rival->forward(); });
      against([&] { conv2d_backward_data(c, y, w, x, pool); }, [&] { rival->backward_data(); });
      against([&] { conv2d_backward_weights(c, x, y, false, w, nullptr, pool); },
              [&] { rival->backward_weights(); });
      fmt::print("\n");
      std::fflush(stdout);
    }
  }
}

}  // namespace butterfly::bench
