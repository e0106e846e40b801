#include "train/train_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/check.h"
#include "base/error.h"
#include "base/units.h"
#include "graph/memory_picture.h"
#include "model/formats/convert.h"
#include "model/formats/file_type.h"
#include "train/data/documents.h"
#include "train/loss_plot.h"
#include "train/metrics.h"

namespace butterfly::train {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

std::string read_text(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// What the config names, or what the tokenizer's file has, or ChatML.
std::string template_text(const TrainConfig& config, const model::Metadata& metadata) {
  const std::string& text = config.chat_template;
  std::error_code error;  // Jinja text may be longer than a path can be
  if (!text.empty()) return fs::exists(text, error) ? read_text(text) : text;
  return metadata.string_or("tokenizer.chat_template", kChatMl);
}

// Everything a model file says of its vocabulary.
void copy_tokenizer(const model::Metadata& from, model::Metadata& to) {
  for (const auto& entry : from.entries())
    if (entry.key.starts_with("tokenizer.")) to.set(entry.key, entry.value);
}

model::RandomModelOptions sizes_of(const TrainConfig& config, size_t vocabulary) {
  const TrainConfig::Model& m = config.model;
  model::RandomModelOptions sizes;
  sizes.architecture = m.model_type;
  sizes.vocabulary_size = static_cast<uint32_t>(vocabulary);
  sizes.context_length = m.max_position_embeddings;
  sizes.embedding_length = m.hidden_size;
  sizes.block_count = m.num_hidden_layers;
  sizes.feed_forward_length = m.intermediate_size;
  sizes.head_count = m.num_attention_heads;
  sizes.head_count_kv = m.num_key_value_heads == 0 ? m.num_attention_heads : m.num_key_value_heads;
  sizes.rope_freq_base = static_cast<float>(m.rope_theta);
  sizes.tied = m.tie_word_embeddings;
  sizes.seed = config.seed;
  return sizes;
}

TrainerOptions trainer_options(const TrainConfig& config, uint64_t steps) {
  TrainerOptions options;
  options.optimizer = {.kind = optimizer_by_name(config.optimizer),
                       .beta1 = config.adam_beta1,
                       .beta2 = config.adam_beta2,
                       .eps = config.adam_epsilon,
                       .momentum = config.momentum,
                       .weight_decay = config.weight_decay};
  options.schedule = {.kind = schedule_by_name(config.lr_scheduler),
                      .lr = config.learning_rate,
                      .warmup_steps = config.warmup_steps,
                      .total_steps = steps,
                      .min_ratio = config.cosine_min_lr_ratio};
  options.clip_norm = config.max_grad_norm;
  options.seed = config.seed;
  options.workers = config.workers;
  options.threads_per_worker = config.threads;
  options.recompute = config.gradient_checkpointing;
  return options;
}

// Keys that do not change what is learned, and may differ when a run goes on.
bool is_free(std::string_view key) {
  for (const std::string_view free :
       {"output_dir", "logging_steps", "eval_steps", "save_steps", "save_total_limit", "export_type",
        "workers", "threads", "dataloader_num_workers", "dataloader_prefetch_factor", "test_datasets"})
    if (key == free) return true;
  return false;
}

}  // namespace

TrainRun::TrainRun(const TrainConfig& config, bool resume) : config_(config) {
  check_config(config_);
  const std::string& vocabulary_file = config_.tokenizer.empty() ? config_.base_model : config_.tokenizer;
  const model::ModelFile vocabulary = model::open_model(vocabulary_file);
  tokenizer_ = model::make_tokenizer(vocabulary.metadata());
  const std::string chat = template_text(config_, vocabulary.metadata());
  chat_ = model::ChatTemplate::compile(chat);

  const TransformerOptions options{.length = config_.sequence_len,
                                   .dropout = static_cast<float>(config_.dropout)};
  if (config_.base_model.empty()) {
    model::Metadata keys;
    copy_tokenizer(vocabulary.metadata(), keys);
    keys.set("tokenizer.chat_template", chat);
    if (!config_.model.name.empty()) keys.set("general.name", config_.model.name);
    network_ =
        std::make_unique<Transformer>(untrained_model(sizes_of(config_, tokenizer_->vocab_size()), keys,
                                                      static_cast<float>(config_.model.initializer_range)),
                                      options);
  } else {
    network_ = std::make_unique<Transformer>(model::open_model(config_.base_model), options);
  }
  open_data();
  const uint64_t rows = config_.micro_batch_size * config_.gradient_accumulation_steps;
  order_ = std::make_unique<BatchOrder>(*data_, BatchOrderOptions{.rows = rows, .seed = config_.seed});
  steps_ = config_.max_steps > 0
               ? config_.max_steps
               : static_cast<uint64_t>(
                     std::ceil(config_.num_epochs * static_cast<double>(order_->batches_per_epoch())));
  trainer_ = std::make_unique<Trainer>(*network_, trainer_options(config_, steps_));
  checkpoints_ =
      std::make_unique<CheckpointStore>(real_file_system(), fs::path(config_.output_dir) / "checkpoints",
                                        CheckpointOptions{.keep = config_.save_total_limit});
  if (resume) load_checkpoint();
}

TrainRun::~TrainRun() = default;

void TrainRun::open_data() {
  const auto open_all = [&](const std::vector<std::string>& paths) {
    std::vector<std::unique_ptr<Dataset>> parts;
    for (const std::string& path : paths)
      parts.push_back(open_dataset(path, config_.sequence_len, *tokenizer_, *chat_,
                                   {.train_on_inputs = config_.train_on_inputs}));
    return joined(std::move(parts));
  };
  data_ = open_all(config_.datasets);
  if (config_.test_datasets.empty()) return;
  test_data_ = open_all(config_.test_datasets);
  test_order_ = std::make_unique<BatchOrder>(
      *test_data_, BatchOrderOptions{.rows = config_.micro_batch_size, .shuffle = false, .keep_rest = true});
}

std::map<std::string, std::string> TrainRun::settings() const {
  std::map<std::string, std::string> settings;
  std::istringstream lines(config_text(config_));
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
  settings["steps"] = fmt::format("{}", steps_);
  settings["data"] = fmt::format("{} items", data_->size());
  return settings;
}

void TrainRun::load_checkpoint() {
  auto loaded = checkpoints_->load_latest();
  if (!loaded) return;
  notes_ = loaded->refused;
  for (const auto& [key, value] : settings()) {
    const auto there = loaded->state.settings.find(key);
    const std::string before = there == loaded->state.settings.end() ? "not set" : there->second;
    if (before != value)
      fail(Errc::kInvalidArgument, "{}/{}: was made with {} = {}, now it is {}; choose another output_dir",
           checkpoints_->folder().string(), loaded->name, key, before, value);
  }
  for (const StateArray& array : trainer_->state()) {
    const auto part = loaded->parts.find(array.name);
    if (part == loaded->parts.end() || part->second.size() != array.bytes.size())
      fail(Errc::kCorrupt, "{}/{}: {} has {} bytes, expected {}", checkpoints_->folder().string(),
           loaded->name, array.name, part == loaded->parts.end() ? 0 : part->second.size(),
           array.bytes.size());
    std::memcpy(array.bytes.data(), part->second.data(), array.bytes.size());
  }
  trainer_->set_step_count(loaded->state.step);
  if (const auto best = loaded->parts.find("best");
      best != loaded->parts.end() && best->second.size() == 16) {
    double loss = 0;
    std::memcpy(&loss, best->second.data(), 8);
    std::memcpy(&best_step_, best->second.data() + 8, 8);
    best_valid_ = loss;
  }
  cut_metrics();
}

void TrainRun::save() {
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
    const size_t ids = batch.shape.ids, targets = batch.shape.targets;
    parts.push_back({.tokens = std::span(batch.ids).subspan(row * ids, rows * ids),
                     .pixels = {},
                     .targets = std::span(batch.targets).subspan(row * targets, rows * targets)});
  }
  return parts;
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

RunResult TrainRun::run(const KeepGoing& keep_going) {
  fs::create_directories(config_.output_dir);
  RunResult result;
  Prefetch prefetch([this](uint64_t index, Batch& batch) { order_->fill(index, batch); },
                    {.threads = config_.dataloader_num_workers,
                     .depth = config_.dataloader_prefetch_factor,
                     .begin = step(),
                     .end = steps_});
  double rate = 0;
  while (step() < steps_) {
    const auto start = SteadyClock::now();
    const Batch* batch = prefetch.next();
    BF_CHECK(batch != nullptr) << "no batch for step " << step();
    const double waited = std::chrono::duration<double>(SteadyClock::now() - start).count();
    RunProgress progress;
    progress.steps = steps_;
    progress.report = trainer_->step(cut(*batch));
    progress.step = step();
    const double seconds = std::chrono::duration<double>(SteadyClock::now() - start).count();
    const double now = static_cast<double>(progress.report.targets) / seconds;
    rate = rate == 0 ? now : 0.9 * rate + 0.1 * now;
    progress.items_per_second = rate;
    progress.waited = waited / seconds;
    result.loss = progress.report.loss;
    if (!std::isfinite(result.loss))
      fail(Errc::kInvalidArgument,
           "step {}: the loss is {}; a smaller learning_rate or max_grad_norm may help", step(), result.loss);

    const bool last = step() == steps_;
    if (last || (config_.eval_steps > 0 && step() % config_.eval_steps == 0)) {
      if (const auto report = validate()) {
        progress.valid = result.valid = report->loss;
        if (!best_valid_ || report->loss < *best_valid_) {
          best_valid_ = report->loss;
          best_step_ = step();
        }
      }
    }
    const bool improved = best_valid_ && best_step_ == step();
    if (last || improved || (config_.save_steps > 0 && step() % config_.save_steps == 0)) {
      save();
      progress.saved = true;
    }
    log(progress);
    if (!keep_going(progress) && !last) {
      if (!progress.saved) save();
      result.step = step();
      result.best_valid = best_valid_;
      return result;
    }
  }
  result.step = step();
  result.best_valid = best_valid_;
  result.finished = true;
  result.model = export_model();
  return result;
}

void TrainRun::log(const RunProgress& progress) {
  const bool due = progress.step % config_.logging_steps == 0 || progress.valid || progress.step == steps_;
  if (!due) return;
  const fs::path folder = config_.output_dir;
  append_metrics(folder / "metrics.jsonl", progress.step, progress.report, progress.items_per_second,
                 progress.waited, progress.valid);
  if (progress.valid || progress.step == steps_)
    write_loss_plot(folder / "metrics.jsonl", folder / "loss.svg");
}

void TrainRun::cut_metrics() { keep_metrics_up_to(fs::path(config_.output_dir) / "metrics.jsonl", step()); }

fs::path TrainRun::export_model() {
  const fs::path folder = config_.output_dir;
  const fs::path plain = folder / "model-F32.gguf", path = folder / "model.gguf";
  network_->write_gguf(plain);
  const model::FileType* type = model::file_type_by_name(config_.export_type);
  if (type == nullptr) fail(Errc::kInvalidArgument, "export_type: no type '{}'", config_.export_type);
  ThreadPool pool;
  model::convert_model(model::open_model(plain), path, {.type = type}, pool);
  fs::remove(plain);
  return path;
}

std::string TrainRun::report() {
  const auto& plan = trainer_->executor(config_.micro_batch_size).plan();
  const auto& graph = trainer_->executor(config_.micro_batch_size).graph();
  const graph::Cost cost = graph.cost({});
  uint64_t parameters = 0;
  for (const auto& [name, tensor] : network_->weights()) parameters += static_cast<uint64_t>(tensor.count());
  const TrainerMemory memory = trainer_->memory();
  const uint64_t tokens =
      config_.micro_batch_size * config_.gradient_accumulation_steps * config_.sequence_len;
  std::string text;
  text += fmt::format("model    {} parameters, {} tokens in the vocabulary\n", format_count(parameters),
                      tokenizer_->vocab_size());
  text += fmt::format("data     {}\n", data_->describe());
  if (test_data_ != nullptr) text += fmt::format("test     {}\n", test_data_->describe());
  text += fmt::format("steps    {} of {} tokens ({} x {} x {}), {} done\n", steps_, tokens,
                      config_.micro_batch_size, config_.gradient_accumulation_steps, config_.sequence_len,
                      step());
  text += fmt::format("compute  {} flops a step\n",
                      format_count(cost.flops * config_.gradient_accumulation_steps));
  text += fmt::format("outside the pool: weights {}, optimizer {}, gradients {} for each buffer of the sum\n",
                      format_bytes(memory.weights), format_bytes(memory.optimizer),
                      format_bytes(trainer_->layout().total() * sizeof(float)));
  text += fmt::format("one worker's pool, {} worker{}:\n", config_.workers, config_.workers == 1 ? "" : "s");
  return text + graph::memory_report(graph, plan);
}

std::string TrainRun::memory_picture() {
  const auto& executor = trainer_->executor(config_.micro_batch_size);
  return graph::memory_picture(executor.graph(), executor.plan(), "one micro-batch: forward and backward");
}

}  // namespace butterfly::train
