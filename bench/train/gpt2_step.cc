// Steps of training a GPT-2 shape: loss, seconds and peak memory, as gpt2_torch.py prints them.
//
//   gpt2_step [--layers 12 --dim 768 --heads 12 --vocab 50257 --context 1024] [--batch 4] [--length 64]
//             [--steps 10] [--threads 2] [--lr 1e-4] [--dump FOLDER] [--profile 1] [--keep 1]
//
// --dump writes the weights before the first step, for gpt2_torch.py --weights. --keep keeps all gradients
// until the end of the step, as clipping needs it; without it each is used up at once.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "train/testing/gpt2.h"
#include "train/testing/npy.h"
#include "train/trainer/trainer.h"

namespace {

using namespace butterfly;

// Milliseconds a step by kind of op, largest first, with the share of flops.
void print_profile(const graph::Executor& executor, double steps) {
  struct Sum {
    double ns = 0, flops = 0;
  };
  std::map<std::string, Sum> sums;
  const graph::Graph& g = executor.graph();
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    Sum& sum = sums[std::string(g.nodes()[i].op->name)];
    sum.ns += static_cast<double>(executor.node_ns()[i]);
    sum.flops += static_cast<double>(g.nodes()[i].op->cost(g, g.nodes()[i], {}).flops) * steps;
  }
  std::multimap<double, std::pair<std::string, double>> order;
  for (const auto& [name, sum] : sums) order.emplace(-sum.ns, std::pair{name, sum.flops / sum.ns});
  for (const auto& [ns, row] : order)
    std::printf("%-24s %9.2f ms/step %8.1f GFLOP/s\n", row.first.c_str(), -ns / steps / 1e6, row.second);
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> flags = {
      {"layers", "12"}, {"dim", "768"},   {"heads", "12"}, {"vocab", "50257"}, {"context", "1024"},
      {"batch", "4"},   {"length", "64"}, {"steps", "10"}, {"threads", "2"},   {"lr", "1e-4"},
      {"dump", ""},     {"profile", "0"}, {"keep", "0"}};
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = std::string(argv[i]).substr(2);
    if (!flags.contains(name)) return std::fprintf(stderr, "unknown flag %s\n", argv[i]), 2;
    flags[name] = argv[i + 1];
  }
  const auto number = [&](const char* name) { return static_cast<uint32_t>(std::stoul(flags[name])); };
  const train::testing::Gpt2 gpt{number("layers"),  number("dim"),   number("heads"), number("vocab"),
                                 number("context"), number("batch"), number("length")};
  train::Transformer network(gpt.untrained(), {.length = gpt.length});
  if (!flags["dump"].empty()) {
    std::filesystem::create_directories(flags["dump"]);
    for (const auto& [name, tensor] : network.weights())
      train::testing::write_npy(std::filesystem::path(flags["dump"]) / (name + ".npy"), tensor);
  }
  train::TrainerOptions options{.optimizer = {.weight_decay = 0.01},
                                .schedule = {.lr = std::stod(flags["lr"])}};
  options.threads_per_worker = number("threads");
  options.update_in_backward = flags["keep"] == "0";
  train::Trainer trainer(network, options);
  auto& executor = const_cast<graph::Executor&>(trainer.executor(gpt.batch));
  for (size_t step = 0; step < number("steps"); ++step) {
    const train::testing::Gpt2Tokens data(gpt, step);
    const train::MicroBatch batch = data.batch();
    const train::StepReport report = trainer.step({&batch, 1});
    std::printf("%zu %.7f %.4f\n", step, report.loss, report.seconds);
    std::fflush(stdout);
    executor.set_profiling(flags["profile"] != "0");  // the first step meets its memory for the first time
  }
  if (flags["profile"] != "0") print_profile(executor, number("steps") - 1.0);
  const train::TrainerMemory memory = trainer.memory();
  std::printf("weights %zu gradients %zu optimizer %zu activations %zu live_max %zu\n", memory.weights,
              memory.gradients, memory.optimizer, memory.activations, memory.live_max);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("peak_bytes %ld\n", usage.ru_maxrss * 1024);
}
