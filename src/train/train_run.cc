#include "train/train_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <sstream>

#include "base/check.h"
#include "base/error.h"
#include "base/units.h"
#include "graph/memory_picture.h"
#include "kernels/simd/target.h"
#include "tensor/file_memory.h"
#include "train/data/fingerprint.h"
#include "train/loss_plot.h"
#include "train/metrics.h"
#include "train/run_files.h"

namespace butterfly::train {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

// Keys that do not change what is learned, and may differ when a run goes on.
bool is_free(std::string_view key) {
  for (const std::string_view free : {"output_dir",
                                      "logging_steps",
                                      "eval_steps",
                                      "save_steps",
                                      "save_total_limit",
                                      "export_type",
                                      "load_best_model_at_end",
                                      "resume_from_checkpoint",
                                      "early_stopping_patience",
                                      "dataset_prepared_path",
                                      "workers",
                                      "threads",
                                      "gradient_checkpointing",
                                      "update_in_backward",
                                      "dataloader_num_workers",
                                      "dataloader_prefetch_factor",
                                      "test_datasets",
                                      "wire_compress",
                                      "wire_compress_min_bytes",
                                      "wire_bucket_bytes",
                                      "wire_socket_bytes",
                                      "pipeline_stages"})
    if (key == free) return true;
  return false;
}

// Among the settings of a checkpoint.
constexpr const char* kNumerics = "numerics";
constexpr const char* kData = "data";
constexpr const char* kSteps = "steps";
constexpr const char* kExtended = "extended";  // ends of the run before it was made longer, if it was

// How long a run is: what may become more once it has come to its end.
bool is_length(std::string_view key) { return key == kSteps || key == "max_steps" || key == "num_epochs"; }

// Of files only the names: a run may go on in another folder. What is in them is told by kData.
std::string without_folders(std::string_view key, const std::string& value) {
  if (!is_path(key)) return value;
  std::string names;
  for (const std::string& path : list_of_text(value))
    names += (names.empty() ? "" : ",") + fs::path(path).filename().string();
  return names;
}

// "300 items, 0123...": checkpoints of earlier versions have the first half.
bool is_same_data(std::string_view before, std::string_view now) {
  return before == now ||
         (before.find(',') == std::string_view::npos && now.starts_with(std::string(before) + ","));
}

std::map<std::string, std::string> deciding_settings(const TrainConfig& config) {
  std::map<std::string, std::string> settings;
  std::istringstream lines(config_text(config));
  std::string key;
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) {  // a template of several lines goes on
      if (!is_free(key)) settings[key] += "\n" + line;
      continue;
    }
    key = line.substr(0, colon);
    if (!is_free(key)) settings[key] = line.substr(colon + 2);
  }
  return settings;
}

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

// How fast the last steps were: sums in which a step counts nine tenths of the one after it.
struct Pace {
  double steps = 0, targets = 0, seconds = 0;
  void add(double step_targets, double step_seconds) {
    steps = 0.9 * steps + 1;
    targets = 0.9 * targets + step_targets;
    seconds = 0.9 * seconds + step_seconds;
  }
};

}  // namespace

TrainerOptions trainer_options(const TrainConfig& config, uint64_t steps) {
  TrainerOptions options;
  options.optimizer = optimizer_options(config);
  options.schedule = {.kind = schedule_by_name(config.lr_scheduler),
                      .lr = config.learning_rate,
                      .warmup_steps = config.warmup_ratio > 0
                                          ? static_cast<uint64_t>(
                                                std::lround(config.warmup_ratio * static_cast<double>(steps)))
                                          : config.warmup_steps,
                      .total_steps = steps,
                      .min_ratio = config.cosine_min_lr_ratio};
  options.clip_norm = config.max_grad_norm;
  options.seed = config.seed;
  options.workers = config.workers;
  options.threads_per_worker = config.threads;
  options.recompute = config.gradient_checkpointing;
  options.update_in_backward = config.update_in_backward;
  options.wire = wire_mode_by_name(config.wire_mode);
  if (options.wire != WireMode::kExact) {
    const PairTree tree(config.gradient_accumulation_steps);
    options.slots = tree.count(tree.level_of_at_most(std::max<uint64_t>(1, config.wire_slots)));
    options.local_steps = config.local_steps;
    options.outer_lr = config.outer_learning_rate;
    options.outer_momentum = config.outer_momentum;
    if (makes_local_steps(options.wire) &&
        config.local_steps * options.slots > config.gradient_accumulation_steps)
      fail(
          Errc::kInvalidArgument,
          "local_steps: {} in each of {} slots need as many micro-batches, gradient_accumulation_steps is {}",
          config.local_steps, options.slots, config.gradient_accumulation_steps);
  }
  return options;
}

TrainRun::TrainRun(const TrainConfig& config, RunMode mode, model::PackedWeights* packed) : config_(config) {
  check_config(config_);
  // What the run is known by: exact sums have no slots, and without nodes there is one.
  config_.wire_mode = wire_mode_name(wire_mode_by_name(config_.wire_mode));
  if (config_.wire_mode == "exact")
    config_.wire_slots = 0;
  else
    config_.wire_slots = std::max<uint64_t>(1, config_.wire_slots);
  if (config_.datasets.empty() && mode != RunMode::kDry)
    fail(Errc::kInvalidArgument, "datasets: expected at least one file");
  // Layers learn on other nodes, and this one need not have room for all of them.
  std::optional<FileMemoryScope> in_files;
  if (config_.pipeline_stages > 0 && mode != RunMode::kDry) in_files.emplace(state_folder());
  task_ = open_task(config_, mode != RunMode::kDry, packed);
  const uint64_t rows = config_.micro_batch_size * config_.gradient_accumulation_steps;
  steps_ = config_.max_steps;
  if (task_.data != nullptr) {
    order_ = std::make_unique<BatchOrder>(
        *task_.data, BatchOrderOptions{.rows = rows, .seed = config_.seed, .change = task_.change});
    if (steps_ == 0)
      steps_ = static_cast<uint64_t>(
          std::ceil(config_.num_epochs * static_cast<double>(order_->batches_per_epoch())));
  }
  if (task_.test_data != nullptr)
    test_order_ = std::make_unique<BatchOrder>(
        *task_.test_data, BatchOrderOptions{.rows = rows, .shuffle = false, .keep_rest = true});
  trainer_ = std::make_unique<Trainer>(*task_.network, trainer_options(config_, steps_));
  checkpoints_ =
      std::make_unique<CheckpointStore>(real_file_system(), fs::path(config_.output_dir) / "checkpoints",
                                        CheckpointOptions{.keep = config_.save_total_limit});
  if (mode != RunMode::kAfresh && task_.data != nullptr) load_checkpoint();
}

TrainRun::~TrainRun() = default;

std::map<std::string, std::string> TrainRun::settings() const {
  std::map<std::string, std::string> settings = deciding_settings(config_);
  settings[kSteps] = fmt::format("{}", steps_);
  if (!extended_.empty()) settings[kExtended] = extended_;
  settings[kData] = fmt::format("{} items, {}", task_.data->size(), fingerprint(*task_.data));
  for (const auto& [name, value] : task_.settings) settings[name] = value;
  // The same run under other rules of arithmetic is another run.
  settings[kNumerics] = fmt::format("{}", kernels::kNumericsId);
  return settings;
}

void TrainRun::load_checkpoint() {
  std::optional<LoadedCheckpoint> loaded;
  if (const std::string& wanted = config_.resume_from_checkpoint; wanted.empty()) {
    loaded = checkpoints_->load_latest();
  } else if (wanted != "best") {
    loaded = checkpoints_->load(wanted);
  } else if (const auto best = checkpoints_->best()) {
    loaded = checkpoints_->load(checkpoint_name(*best));
  } else {
    fail(Errc::kNotFound, "resume_from_checkpoint: {} has no checkpoint of a validation",
         checkpoints_->folder().string());
  }
  if (!loaded) return;
  notes_ = loaded->refused;
  // A run that has come to its end can be made longer: the rates are then those of the longer one, from here
  // on.
  const std::map<std::string, std::string>& saved = loaded->state.settings;
  const auto saved_of = [&](const char* key) {
    const auto found = saved.find(key);
    return found == saved.end() ? std::string() : found->second;
  };
  extended_ = saved_of(kExtended);
  const bool longer =
      saved_of(kSteps) == fmt::format("{}", loaded->state.step) && steps_ > loaded->state.step;
  if (longer) {
    notes_.push_back(fmt::format("the run of {} steps had come to its end; it goes on to step {}",
                                 loaded->state.step, steps_));
    extended_ += fmt::format("{}{}", extended_.empty() ? "" : ", ", loaded->state.step);
  }
  // A key that came into the program after the checkpoint had its default then.
  const std::map<std::string, std::string> defaults = deciding_settings(TrainConfig());
  for (const auto& [key, value] : settings()) {
    const auto there = loaded->state.settings.find(key);
    const auto absent = defaults.find(key);
    if (key == kExtended || (longer && is_length(key))) continue;
    if (key == kNumerics && there == loaded->state.settings.end()) continue;  // of before it was kept
    const std::string before = there != loaded->state.settings.end() ? there->second
                               : absent != defaults.end()            ? absent->second
                                                                     : "not set";
    const bool same = key == kData ? is_same_data(before, value)
                                   : without_folders(key, before) == without_folders(key, value);
    if (!same)
      fail(Errc::kInvalidArgument, "{}/{}: was made with {} = {}, now it is {}; choose another output_dir{}",
           checkpoints_->folder().string(), loaded->name, key, before, value,
           is_length(key) ? ", or let it come to its end first: then it can be made longer" : "");
  }
  for (const StateArray& array : trainer_->state()) checkpoints_->read_part(*loaded, array.name, array.bytes);
  trainer_->set_step_count(loaded->state.step);
  if (const auto part = loaded->parts.find("best"); part != loaded->parts.end() && part->second.bytes == 16) {
    std::byte best[16];
    checkpoints_->read_part(*loaded, "best", best);
    double loss = 0;
    std::memcpy(&loss, best, 8);
    std::memcpy(&best_step_, best + 8, 8);
    best_valid_ = loss;
  }
}

// A rate that is far too high makes weights infinite in a step whose loss was still a number.
void TrainRun::check_weights() const {
  for (const auto& [name, tensor] : task_.network->weights()) {
    const auto* values = tensor.data<float>();
    const auto* end = values + tensor.count();
    const auto* bad = std::find_if(values, end, [](float value) { return !std::isfinite(value); });
    if (bad != end)
      fail(Errc::kInvalidArgument,
           "step {}: {}[{}] became {}, so nothing of this step is saved; a smaller learning_rate or "
           "max_grad_norm may help",
           step(), name, bad - values, *bad);
  }
}

bool TrainRun::out_of_patience() const {
  return config_.early_stopping_patience > 0 && best_valid_ &&
         step() - best_step_ >= config_.early_stopping_patience * config_.eval_steps;
}

void TrainRun::take_best_weights() {
  const LoadedCheckpoint best = checkpoints_->load(checkpoint_name(best_step_));
  for (const auto& [name, tensor] : task_.network->weights())
    checkpoints_->read_part(best, "weights/" + name, {tensor.raw(), tensor.bytes()});
}

void TrainRun::save(StepDriver* driver) {
  if (driver != nullptr) driver->gather_state();
  check_weights();
  RunState state{.step = step(), .data_cursor = step(), .seed = config_.seed, .settings = settings()};
  std::vector<StatePart> parts;
  const std::vector<StateArray> arrays = trainer_->state();
  for (const StateArray& array : arrays) parts.push_back({array.name, array.bytes});
  std::byte best[16];
  if (best_valid_) {
    std::memcpy(best, &*best_valid_, 8);
    std::memcpy(best + 8, &best_step_, 8);
    parts.push_back({"best", best});
  }
  checkpoints_->save(state, parts);
  if (best_valid_ && best_step_ == step()) checkpoints_->mark_best(step());
}

std::vector<MicroBatch> TrainRun::cut(const Batch& batch) const {
  std::vector<MicroBatch> parts;
  for (size_t row = 0; row < batch.rows; row += config_.micro_batch_size) {
    const size_t rows = std::min<size_t>(config_.micro_batch_size, batch.rows - row);
    const auto& [ids, values, targets] = batch.shape;
    parts.push_back({.tokens = std::span(batch.ids).subspan(row * ids, rows * ids),
                     .pixels = std::span(batch.values).subspan(row * values, rows * values),
                     .targets = std::span(batch.targets).subspan(row * targets, rows * targets),
                     .counted = task_.counts_items ? rows : 0});
  }
  return parts;
}

uint64_t TrainRun::batch_bytes() const {
  const ItemShape& item = task_.data->shape();
  return config_.micro_batch_size * config_.gradient_accumulation_steps *
         (4 * (item.ids + item.targets) + sizeof(float) * item.values);
}

// So many as are asked for, within some memory: a batch of images may be large.
uint64_t TrainRun::prefetch_depth() const {
  constexpr uint64_t kMaxBytes = 256 << 20;
  return std::clamp<uint64_t>(kMaxBytes / std::max<uint64_t>(1, batch_bytes()), 2,
                              std::max<uint64_t>(2, config_.dataloader_prefetch_factor));
}

std::optional<StepReport> TrainRun::validate() {
  if (test_order_ == nullptr) return std::nullopt;
  // Batch by batch: each loss is a mean over its targets, so they are weighed by their number.
  StepReport total;
  Batch batch;
  for (uint64_t i = 0; i < test_order_->batches_per_epoch(); ++i) {
    test_order_->fill(i, batch);
    if (std::all_of(batch.targets.begin(), batch.targets.end(), [](int32_t t) { return t < 0; })) continue;
    const StepReport report = trainer_->evaluate(cut(batch));
    total.loss += report.loss * static_cast<double>(report.targets);
    total.targets += report.targets;
    total.correct += report.correct;
    total.seconds += report.seconds;
  }
  if (total.targets > 0) total.loss /= static_cast<double>(total.targets);
  return total;
}

RunResult TrainRun::run(const KeepGoing& keep_going, StepDriver* driver) {
  fs::create_directories(config_.output_dir);
  keep_metrics_up_to(fs::path(config_.output_dir) / kMetricsFile, step());
  RunResult result;
  Prefetch prefetch(
      [this](uint64_t index, Batch& batch) { order_->fill(index, batch); },
      {.threads = config_.dataloader_num_workers, .depth = prefetch_depth(), .begin = step(), .end = steps_});
  Pace pace;
  const auto begin = SteadyClock::now();
  while (step() < steps_ && !out_of_patience()) {
    const auto start = SteadyClock::now();
    const Batch* batch = prefetch.next();
    BF_CHECK(batch != nullptr) << "no batch for step " << step();
    const double waited = seconds_since(start);
    RunProgress progress;
    progress.steps = steps_;
    progress.unit = task_.unit;
    const std::vector<MicroBatch> parts = cut(*batch);
    progress.report = driver == nullptr ? trainer_->step(parts) : driver->step(parts);
    progress.step = step();
    const double seconds = seconds_since(start);
    pace.add(static_cast<double>(progress.report.targets), seconds);
    progress.items_per_second = pace.targets / pace.seconds;
    progress.seconds_left = static_cast<double>(steps_ - step()) * pace.seconds / pace.steps;
    progress.waited = waited / seconds;
    result.loss = progress.report.loss;
    if (!std::isfinite(result.loss))
      fail(Errc::kInvalidArgument,
           "step {}: the loss is {}; a smaller learning_rate or max_grad_norm may help", step(), result.loss);

    bool last = step() == steps_;
    if (last || (config_.eval_steps > 0 && step() % config_.eval_steps == 0)) {
      if (driver != nullptr && test_order_ != nullptr) driver->bring_weights();
      if (const auto report = validate()) {
        progress.valid = result.valid = report->loss;
        progress.valid_right = result.valid_right =
            static_cast<double>(report->correct) / static_cast<double>(std::max<size_t>(1, report->targets));
        if (!best_valid_ || report->loss < *best_valid_) {
          best_valid_ = report->loss;
          best_step_ = step();
        }
      }
    }
    last = last || out_of_patience();
    const bool improved = best_valid_ && best_step_ == step();
    if (last || improved || (config_.save_steps > 0 && step() % config_.save_steps == 0)) {
      save(driver);
      progress.saved = true;
    }
    log(progress);
    progress.seconds = seconds_since(begin);
    if (!keep_going(progress) && !last) {
      if (!progress.saved) save(driver);
      result.step = step();
      result.best_valid = best_valid_;
      return result;
    }
  }
  result.step = step();
  result.best_valid = best_valid_;
  result.finished = true;
  result.model_step = step();
  if (config_.load_best_model_at_end && best_valid_ && best_step_ != step()) {
    take_best_weights();
    result.model_step = best_step_;
  }
  result.model = task_.write(config_.output_dir);
  return result;
}

void TrainRun::log(const RunProgress& progress) {
  const bool due = progress.step % config_.logging_steps == 0 || progress.valid || progress.step == steps_;
  if (!due) return;
  const fs::path folder = config_.output_dir;
  append_metrics(folder / kMetricsFile, progress.step, progress.report, progress.items_per_second,
                 progress.waited, progress.valid, progress.valid_right);
  if (progress.valid || progress.step == steps_) write_loss_plot(folder / kMetricsFile, folder / "loss.svg");
}

std::string TrainRun::report() {
  const graph::Executor& training = trainer_->executor(config_.micro_batch_size);
  const graph::Executor& evaluation = trainer_->executor(config_.micro_batch_size, false);
  const graph::Cost cost = training.graph().cost({});
  uint64_t parameters = 0;
  for (size_t i = 0; i < trainer_->layout().size(); ++i)
    if (!trainer_->layout().parameter(i).statistic) parameters += trainer_->layout().count(i);
  const TrainerMemory memory = trainer_->memory();
  const uint64_t items = config_.micro_batch_size * config_.gradient_accumulation_steps;
  std::string text;
  text += fmt::format("model    {} parameters, {}\n{}", format_count(parameters), task_.words, task_.details);
  text += fmt::format("data     {}\n", task_.data == nullptr ? "none is named" : task_.data->describe());
  if (task_.test_data != nullptr) text += fmt::format("test     {}\n", task_.test_data->describe());
  text += fmt::format("steps    {} of {} {} ({} x {}", steps_, items * task_.targets, task_.unit,
                      config_.micro_batch_size, config_.gradient_accumulation_steps);
  text +=
      fmt::format("{}), {} done\n", task_.targets == 1 ? "" : fmt::format(" x {}", task_.targets), step());
  text += fmt::format("compute  {} flops a step\n",
                      format_count(cost.flops * config_.gradient_accumulation_steps));
  text +=
      fmt::format("outside the pool: {}weights {}, optimizer {}, gradients {} for each buffer of the sum\n",
                  memory.frozen == 0 ? "" : fmt::format("frozen weights {}, ", format_bytes(memory.frozen)),
                  format_bytes(memory.weights), format_bytes(memory.optimizer),
                  format_bytes(trainer_->layout().total() * sizeof(float)));
  if (task_.data != nullptr)
    text += fmt::format("batches made ahead: {} of {}, {} at most\n", prefetch_depth(),
                        format_bytes(batch_bytes()), format_bytes(prefetch_depth() * batch_bytes()));
  text += fmt::format("\none worker's pool, {} worker{}, training:\n", config_.workers,
                      config_.workers == 1 ? "" : "s");
  text += graph::memory_report(training.graph(), training.plan());
  text += "\nthe same for validation, which shares it:\n";
  return text + graph::memory_report(evaluation.graph(), evaluation.plan());
}

double TrainRun::measure_step() {
  if (order_ == nullptr) return 0;
  Batch batch;
  order_->fill(0, batch);
  const std::vector<MicroBatch> parts = cut(batch);
  const std::span<const MicroBatch> first(parts.data(), 1);
  double seconds = 0;
  for (int run = 0; run < 2; ++run) {  // the first one touches memory for the first time
    const auto start = SteadyClock::now();
    trainer_->leaves(step_shape(first), 0, first);
    seconds = seconds_since(start);
  }
  return seconds * std::ceil(static_cast<double>(parts.size()) / static_cast<double>(config_.workers));
}

std::string TrainRun::memory_picture() {
  const auto& executor = trainer_->executor(config_.micro_batch_size);
  return graph::memory_picture(executor.graph(), executor.plan(), "one micro-batch: forward and backward");
}

}  // namespace butterfly::train
