// What prefetching, the queue and several workers are worth in a real run: a small transformer learns texts
// of unequal length, one to a window, from a source that is as slow as it is told to be.
//
//   pipeline_run TOKENIZER.gguf TEXTS.jsonl [steps] [milliseconds that a batch takes to read]
//
// Steps of 16 micro-batches of two texts. "queue": whoever is free takes the next one; "barrier": all wait
// after every round of as many micro-batches as there are workers. The weights are the same in every row, and
// compared.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/sha256.h"
#include "train/data/prefetch.h"
#include "train/train_run.h"

namespace butterfly::train {
namespace {

using Clock = std::chrono::steady_clock;

TrainConfig config_of(const char* tokenizer, const char* texts, size_t workers) {
  TrainConfig c;
  c.tokenizer = tokenizer;
  c.datasets = {texts};
  c.model.hidden_size = 128;
  c.model.intermediate_size = 384;
  c.model.num_hidden_layers = 4;
  c.model.num_attention_heads = 4;
  c.model.max_position_embeddings = 256;
  c.sequence_len = 256;
  c.sample_packing = false;
  c.micro_batch_size = 2;
  c.gradient_accumulation_steps = 16;
  c.max_steps = 1000;
  c.threads = 1;
  c.workers = workers;
  c.output_dir = "pipeline-run-out";
  return c;
}

// A step in rounds: nobody begins one before all have ended theirs.
void step_with_barriers(Trainer& trainer, std::span<const MicroBatch> parts, size_t workers) {
  const StepShape shape = step_shape(parts);
  GradientTree tree(trainer.layout().total());
  ThreadPool pool(1);
  std::vector<LeafSubtree> all;
  for (size_t first = 0; first < parts.size(); first += workers) {
    LeafSums sums =
        trainer.leaves(shape, first, parts.subspan(first, std::min(workers, parts.size() - first)));
    for (LeafSubtree& subtree : sums.subtrees) all.push_back(std::move(subtree));
  }
  tree.begin(parts.size());
  for (LeafSubtree& subtree : all) tree.finish(subtree.node, std::move(subtree.sum), pool);
  const GradientSum gradients = tree.result();
  const Shard whole = trainer.layout().all();
  trainer.update(whole, gradients.values, trainer.norm(trainer.squares(whole, gradients.values)),
                 parts.size());
  trainer.set_step_count(trainer.step_count() + 1);
}

std::string weights_of(TrainRun& run) {
  std::string hashes;
  for (const auto& [name, tensor] : run.task().network->weights())
    hashes += sha256_hex(std::span<const std::byte>(tensor.raw(), tensor.bytes()));
  return sha256_hex(hashes);
}

int table(const char* tokenizer, const char* texts, uint64_t steps, double read_ms) {
  fmt::print("{} steps of 16 micro-batches, reading takes {} ms a batch\n", steps, read_ms);
  fmt::print("workers  micro-batches  made ahead  seconds  waited for data\n");
  std::string expected;
  for (const size_t workers : {1, 2, 4})
    for (const bool barrier : {true, false})
      for (const size_t ahead : {0, 1}) {
        if (workers == 1 && barrier) continue;  // the same
        TrainRun run(config_of(tokenizer, texts, workers), RunMode::kAfresh);
        Prefetch prefetch(
            [&](uint64_t index, Batch& batch) {
              run.fill_batch(index, batch);
              std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(read_ms));
            },
            {.threads = ahead, .depth = 16, .begin = 0, .end = steps + 1});
        const auto one = [&] {
          const Batch* batch = prefetch.next();
          const std::vector<MicroBatch> parts = run.cut(*batch);
          if (barrier) {
            step_with_barriers(run.trainer(), parts, workers);
          } else {
            run.trainer().step(parts);
          }
        };
        one();  // builds graphs
        const auto waited = prefetch.times().waited;
        const auto start = Clock::now();
        for (uint64_t i = 0; i < steps; ++i) one();
        const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
        const double wait = std::chrono::duration<double>(prefetch.times().waited - waited).count();
        fmt::print("{:>7}  {:>13}  {:>10}  {:>7.2f}  {:>12.0f} %\n", workers, barrier ? "barrier" : "queue",
                   ahead == 0 ? "no" : "yes", seconds, 100 * wait / seconds);
        std::fflush(stdout);
        const std::string found = weights_of(run);
        if (!expected.empty() && found != expected) {
          fmt::print(stderr, "other weights: {} instead of {}\n", found, expected);
          return 1;
        }
        expected = found;
      }
  return 0;
}

}  // namespace
}  // namespace butterfly::train

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: pipeline_run TOKENIZER.gguf TEXTS.jsonl [steps] [milliseconds]\n");
    return 2;
  }
  return butterfly::train::table(argv[1], argv[2], argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 20,
                                 argc > 4 ? std::strtod(argv[4], nullptr) : 0);
}
