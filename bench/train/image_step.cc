// Steps of training an image network from a TOML file on random images: images a second, and where the time
// goes.
//
//   image_step FILE.toml [steps 100] [batch 64] [threads 2] [profile 0]
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "train/networks/image_network.h"
#include "train/trainer/trainer.h"

int main(int argc, char** argv) {
  using namespace butterfly;
  if (argc < 2) return std::fprintf(stderr, "image_step FILE.toml [steps] [batch] [threads] [profile]\n"), 2;
  const auto number = [&](int i, size_t otherwise) { return argc > i ? std::stoul(argv[i]) : otherwise; };
  const size_t steps = number(2, 100), batch = number(3, 64), threads = number(4, 2);
  const train::ImageNetwork network = train::ImageNetwork::from_file(argv[1], 1);
  std::printf("%s", network.summary().c_str());
  train::TrainerOptions options{.optimizer = {.name = "adam"}, .schedule = {.lr = 1e-3}};
  options.threads_per_worker = threads;
  train::Trainer trainer(network, options);
  std::vector<float> pixels(batch * network.height() * network.width() * network.channels());
  std::vector<int32_t> targets(batch);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = random_normal(1, 0, i);
  for (size_t i = 0; i < batch; ++i)
    targets[i] = static_cast<int32_t>(random_u64(1, 1, i) % network.classes());
  const train::MicroBatch micro{.tokens = {}, .pixels = pixels, .targets = targets};
  for (int i = 0; i < 5; ++i) trainer.step({&micro, 1});
  auto& executor = const_cast<graph::Executor&>(trainer.executor(batch));
  executor.set_profiling(number(5, 0) != 0);
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < steps; ++i) trainer.step({&micro, 1});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("images_per_second %.1f\n", static_cast<double>(steps * batch) / seconds);
  if (number(5, 0) == 0) return 0;
  std::printf("%-20s %9.3f ms/step\n", "all", seconds / static_cast<double>(steps) * 1e3);
  const graph::Graph& g = executor.graph();
  for (size_t i = 0; i < g.nodes().size(); ++i)
    std::printf("%-18s %-30s %9.3f ms/step %8.1f GFLOP/s\n", std::string(g.nodes()[i].op->name).c_str(),
                g.nodes()[i].name.c_str(),
                static_cast<double>(executor.node_ns()[i]) / 1e6 / static_cast<double>(steps),
                static_cast<double>(g.nodes()[i].op->cost(g, g.nodes()[i], {}).flops * steps) /
                    static_cast<double>(executor.node_ns()[i] + 1));
}
