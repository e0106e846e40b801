// A whole training run: from a config to a trained model file, with validation, checkpoints and metrics.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/checkpoint/checkpoint.h"
#include "train/data/batch_order.h"
#include "train/data/prefetch.h"
#include "train/task/config.h"
#include "train/task/task.h"
#include "train/trainer/step_driver.h"
#include "train/trainer/trainer.h"

namespace butterfly::train {

// What the trainer of a run of so many steps is told.
TrainerOptions trainer_options(const TrainConfig& config, uint64_t steps);

// What is shown after a step.
struct RunProgress {
  uint64_t step = 0, steps = 0;
  StepReport report;
  double items_per_second = 0;        // targets, over the last steps
  std::string_view unit;              // what a target is called: "tokens", "images"
  double seconds = 0;                 // since run() began
  double seconds_left = 0;            // by the pace of the last steps
  double waited = 0;                  // part of the time spent waiting for data
  std::optional<double> valid;        // loss, when it was measured after this step
  std::optional<double> valid_right;  // with it: part of the targets that were found
  bool saved = false;                 // a checkpoint was written
};

struct RunResult {
  uint64_t step = 0;
  bool finished = false;  // false: `keep_going` said no; a checkpoint was written
  double loss = 0;        // of the last step
  std::optional<double> valid, valid_right, best_valid;
  std::filesystem::path model;  // the GGUF file, when finished
  uint64_t model_step = 0;      // the step whose weights it has
};

// How a run is opened.
enum class RunMode {
  kResume,  // goes on from the newest whole checkpoint of output_dir, if there is one
  kAfresh,  // from the beginning, whatever output_dir holds
  kDry,     // only to report: data need not be named, and fresh weights may have no values
};

// Owns everything of the run. Not thread-safe.
//
// The weights after step n are a function of config and data alone: stopped and started again any number of
// times, with any number of workers, threads and prefetch threads, the exported file has the same bytes.
class TrainRun {
 public:
  // Reads data, model and checkpoint. Throws Error; kInvalidArgument when the checkpoint is of a run with
  // other settings, naming them. `packed` as open_task() takes it, for the call.
  explicit TrainRun(const TrainConfig& config, RunMode mode = RunMode::kResume,
                    model::PackedWeights* packed = nullptr);
  ~TrainRun();

  // Called after each step; false ends the run after a checkpoint.
  using KeepGoing = std::function<bool(const RunProgress& progress)>;
  // `driver` carries out the steps; null: the trainer of this process does.
  RunResult run(const KeepGoing& keep_going, StepDriver* driver = nullptr);

  // Loss over the test data with the weights as they are now. Without test data: empty.
  std::optional<StepReport> validate();

  // Seconds of a step, from one micro-batch of the first that is computed twice. The weights stay. Without
  // data: 0.
  double measure_step();

  // What batches made ahead take at most.
  uint64_t prefetch_bytes() const { return task_.data == nullptr ? 0 : prefetch_depth() * batch_bytes(); }
  // For dry runs: data, model, memory by class, steps.
  std::string report();
  // Of the memory of one worker's training graph, as SVG.
  std::string memory_picture();
  std::string_view unit() const { return task_.unit; }

  // For drivers: the network learns in this process; batches can be made again in any order.
  const TrainConfig& config() const { return config_; }
  Task& task() { return task_; }
  Trainer& trainer() { return *trainer_; }
  void fill_batch(uint64_t step, Batch& batch) const { order_->fill(step, batch); }
  std::vector<MicroBatch> cut(const Batch& batch) const;

  // Of arrays that a run with pipeline stages keeps in files.
  std::filesystem::path state_folder() const { return std::filesystem::path(config_.output_dir) / "state"; }

  uint64_t step() const { return trainer_->step_count(); }
  uint64_t steps() const { return steps_; }
  const std::vector<std::string>& notes() const {
    return notes_;
  }  // damaged checkpoints that were passed over, and a run that is made longer

 private:
  void load_checkpoint();
  uint64_t batch_bytes() const;
  uint64_t prefetch_depth() const;  // batches made ahead of the step that runs
  bool out_of_patience() const;     // by early_stopping_patience
  void take_best_weights();         // of the checkpoint with the best validation
  void check_weights() const;       // throws Error naming the first that is not finite
  void save(StepDriver* driver);
  void log(const RunProgress& progress);
  std::map<std::string, std::string> settings() const;

  TrainConfig config_;
  Task task_;
  std::unique_ptr<BatchOrder> order_, test_order_;  // null without data
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<CheckpointStore> checkpoints_;
  uint64_t steps_ = 0;
  std::string extended_;  // steps at which the run had ended before it was made longer
  std::optional<double> best_valid_;
  uint64_t best_step_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace butterfly::train
