#include "server/fine_tuning/tuning_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>

#include "server/api/api_error.h"
#include "train/task/tuning.h"
#include "train/train_run.h"

namespace butterfly::server {

namespace fs = std::filesystem;

TuningRun local_tuning(size_t threads, PackedOfFile packed) {
  return [threads, packed = std::move(packed)](train::TrainConfig config, const TuningStep& on_step,
                                               const TuningWanted&, fs::path& adapter) -> Status {
    config.threads = threads > 0 ? threads : std::max<size_t>(1, std::thread::hardware_concurrency() / 2);
    model::PackedWeights held;
    if (packed) held = packed(config.base_model);
    train::TrainRun run(config, train::RunMode::kResume, &held);
    held.clear();  // the network has what it uses
    bool cancelled = false;
    const train::RunResult result = run.run([&](const train::RunProgress& progress) {
      cancelled = !on_step(run, progress);
      return !cancelled;
    });
    adapter = result.model;
    if (result.finished) return {};
    return {Errc::kCancelled, fmt::format("cancelled at step {} of {}", result.step, run.steps())};
  };
}

train::TrainConfig tuning_config(const TuningJob& job, const ModelSpec& base, const FileStore& files,
                                 const fs::path& output) {
  train::TrainConfig config;
  std::set<std::string> given = {"adapter"};
  config.adapter = "lora";
  config.base_model = base.path.string();
  config.datasets = {files.find(job.owner, job.training_file).path.string()};
  if (!job.validation_file.empty())
    config.test_datasets = {files.find(job.owner, job.validation_file).path.string()};
  config.output_dir = output.string();
  config.seed = job.seed;
  config.train_on_inputs = false;
  if (!base.adapters.empty()) config.lora_model_dir = base.adapters.front().path.string();
  if (job.preferences) {
    config.rl = "dpo";
    config.rl_beta = job.beta;
  }
  if (job.epochs) {
    config.num_epochs = *job.epochs;
    given.insert("num_epochs");
  }
  if (job.batch_size) {
    config.micro_batch_size = 1;
    config.gradient_accumulation_steps = *job.batch_size;
    given.insert({"micro_batch_size", "gradient_accumulation_steps"});
  }
  train::TrainConfig chosen = train::choose_tuning(std::move(config), given).config;
  chosen.learning_rate *= job.rate_multiplier.value_or(1);
  return chosen;
}

std::string words_for_client(const TuningJob& job, const FileStore& files, std::string words) {
  for (const std::string& id : {job.training_file, job.validation_file}) {
    try {
      const std::string path = id.empty() ? "" : files.find(job.owner, id).path.string();
      const size_t at = path.empty() ? std::string::npos : words.find(path);
      if (at != std::string::npos) words.replace(at, path.size(), id);
    } catch (const ApiError&) {
      // It was deleted meanwhile, which is what the words are about.
    }
  }
  return words.substr(0, words.find("; skip_bad"));
}

}  // namespace butterfly::server
