// A whole training run: from a config to a trained model file, with validation, checkpoints and metrics.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/chat_template/chat_template.h"
#include "model/formats/model_file.h"
#include "model/tokenizer/tokenizer.h"
#include "train/checkpoint.h"
#include "train/config.h"
#include "train/data/batch_order.h"
#include "train/data/prefetch.h"
#include "train/trainer.h"
#include "train/transformer.h"

namespace butterfly::train {

// What is shown after a step.
struct RunProgress {
  uint64_t step = 0, steps = 0;
  StepReport report;
  double items_per_second = 0;  // targets, over the last steps
  double waited = 0;            // part of the time spent waiting for data
  std::optional<double> valid;  // loss, when it was measured after this step
  bool saved = false;           // a checkpoint was written
};

struct RunResult {
  uint64_t step = 0;
  bool finished = false;  // false: `keep_going` said no; a checkpoint was written
  double loss = 0;        // of the last step
  std::optional<double> valid, best_valid;
  std::filesystem::path model;  // the GGUF file, when finished
};

// Owns everything of the run. Not thread-safe.
//
// The weights after step n are a function of config and data alone: stopped and started again any number of
// times, with any number of workers, threads and prefetch threads, the exported file has the same bytes.
class TrainRun {
 public:
  // Reads data and model, and the newest whole checkpoint of output_dir, if there is one. Throws Error;
  // kInvalidArgument when that checkpoint is of a run with other settings, naming them.
  // `resume` false: from the beginning, whatever output_dir holds.
  explicit TrainRun(const TrainConfig& config, bool resume = true);
  ~TrainRun();

  // Called after each step; false ends the run after a checkpoint.
  using KeepGoing = std::function<bool(const RunProgress& progress)>;
  RunResult run(const KeepGoing& keep_going);

  // Loss over the test data with the weights as they are now. Without test data: empty.
  std::optional<StepReport> validate();

  // For dry runs: data, model, memory by class, steps.
  std::string report();
  // Of the memory of one worker's graph, as SVG.
  std::string memory_picture();

  uint64_t step() const { return trainer_->step_count(); }
  uint64_t steps() const { return steps_; }
  const std::vector<std::string>& notes() const {
    return notes_;
  }  // damaged checkpoints that were passed over

 private:
  void open_data();
  void load_checkpoint();
  void save();
  void log(const RunProgress& progress);
  void cut_metrics();
  std::vector<MicroBatch> cut(const Batch& batch) const;
  std::map<std::string, std::string> settings() const;
  std::filesystem::path export_model();

  TrainConfig config_;
  std::unique_ptr<model::Tokenizer> tokenizer_;
  std::optional<model::ChatTemplate> chat_;
  std::unique_ptr<Dataset> data_, test_data_;
  std::unique_ptr<BatchOrder> order_, test_order_;
  std::unique_ptr<Transformer> network_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<CheckpointStore> checkpoints_;
  uint64_t steps_ = 0;
  std::optional<double> best_valid_;
  uint64_t best_step_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace butterfly::train
