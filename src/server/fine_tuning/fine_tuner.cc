#include "server/fine_tuning/fine_tuner.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/file_text.h"
#include "base/log.h"
#include "base/private_folder.h"
#include "base/secret.h"
#include "server/api/api_error.h"
#include "server/api/list_page.h"
#include "train/task/lora.h"
#include "train/train_run.h"

namespace butterfly::server {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJobFile = "job.json";
constexpr uint64_t kStepsTold = 100;  // of a run, as events
constexpr uint64_t kTimesSaved = 4;   // of a run, where its settings do not say

// "ft:caterpillar:butterfly:my-suffix:1a2b3c4d".
std::string model_name(const std::string& base, const TuningJob& job) {
  std::string suffix;
  for (const char c : job.suffix) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    suffix += plain ? c : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : '-';
  }
  return fmt::format("ft:{}:butterfly:{}:{}", base, suffix, job.id.substr(job.id.find('-') + 1, 8));
}

fs::path checkpoint_file(const fs::path& folder, uint64_t step) {
  return folder / fmt::format("step-{}.gguf", step);
}

void write_checkpoint(const fs::path& folder, train::TrainRun& run, uint64_t step) {
  const fs::path written = folder / "written";
  fs::create_directories(written);
  fs::rename(run.task().write(written), checkpoint_file(folder, step));
  fs::remove_all(written);
}

Json metrics_of(const train::RunProgress& progress) {
  const auto& report = progress.report;
  Json json = {{"step", progress.step},
               {"train_loss", report.loss},
               {"train_mean_token_accuracy", static_cast<double>(report.correct) /
                                                 static_cast<double>(std::max<size_t>(1, report.targets))}};
  if (progress.valid) json["valid_loss"] = *progress.valid;
  if (progress.valid_right) json["valid_mean_token_accuracy"] = *progress.valid_right;
  return json;
}

}  // namespace

FineTuner::FineTuner(FineTunerOptions options, FileStore& files)
    : options_(std::move(options)), files_(files) {
  make_private_folder(options_.folder);
  for (const fs::directory_entry& entry : fs::directory_iterator(options_.folder)) {
    try {
      auto kept = std::make_shared<Entry>();
      kept->job = read_job(read_text_file(entry.path() / kJobFile));
      if (kept->job.id != entry.path().filename().string()) fail(Errc::kCorrupt, "is job {}", kept->job.id);
      if (!is_over(kept->job.status)) kept->job.status = TuningStatus::kQueued;
      jobs_.push_back(std::move(kept));
    } catch (const std::exception& error) {
      log_warn("{}: no fine-tuning job: {}", entry.path().string(), error.what());
    }
  }
  std::ranges::sort(jobs_, {}, [](const EntryPtr& e) { return std::pair(e->job.created_at, e->job.id); });
  for (const EntryPtr& entry : jobs_)
    if (entry->job.status == TuningStatus::kSucceeded) serve(entry->job);
}

FineTuner::~FineTuner() { stop(); }

void FineTuner::start() {
  thread_ = std::thread([this] { work(); });
}

void FineTuner::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

const FineTuner::Entry& FineTuner::find(uint64_t owner, const std::string& id) const {
  for (const EntryPtr& entry : jobs_)
    if (entry->job.owner == owner && entry->job.id == id) return *entry;
  throw ApiError(404, "invalid_request_error", fmt::format("Could not find fine tune: {:.100}", id),
                 "fine_tune_id", "fine_tune_not_found");
}

void FineTuner::save(const TuningJob& job) const {
  const Status status = replace_file(folder_of(job) / kJobFile, save_job(job));
  if (!status) log_error("{}: {}", job.id, status.text());
}

// Jobs that left nothing make room for new ones.
void FineTuner::make_room(uint64_t owner) {
  size_t all = 0, waiting = 0;
  for (const EntryPtr& entry : jobs_) {
    if (entry->job.owner != owner) continue;
    ++all;
    waiting += !is_over(entry->job.status);
  }
  if (waiting >= options_.owner_waiting_max)
    throw ApiError(
        429, "requests",
        fmt::format("{} of your fine-tuning jobs have not ended, at most {} may wait; cancel one, or try "
                    "again when it has",
                    waiting, options_.owner_waiting_max),
        {}, "rate_limit_exceeded");
  if (all < options_.owner_jobs_max) return;
  const auto without_model = std::ranges::find_if(jobs_, [&](const EntryPtr& entry) {
    return entry->job.owner == owner && is_over(entry->job.status) && entry->job.fine_tuned_model.empty();
  });
  if (without_model == jobs_.end())
    throw ApiError(
        429, "requests",
        fmt::format("{} fine-tuned models are kept for each key; delete one (DELETE /v1/models/NAME)",
                    options_.owner_jobs_max),
        {}, "rate_limit_exceeded");
  std::error_code ignored;
  fs::remove_all(folder_of((*without_model)->job), ignored);
  jobs_.erase(without_model);
}

Json FineTuner::create(TuningJob job) {
  const auto base = options_.find_model(job.model);
  if (!base || (base->owner != 0 && base->owner != job.owner))
    throw ApiError(
        400, "invalid_request_error",
        fmt::format("Model {:.100} is not available for fine-tuning or does not exist.", job.model), "model",
        "model_not_available");
  for (const auto& [param, id] :
       {std::pair("training_file", job.training_file), std::pair("validation_file", job.validation_file)}) {
    if (id.empty()) continue;
    try {
      files_.find(job.owner, id);
    } catch (const ApiError&) {
      throw ApiError(400, "invalid_request_error", fmt::format("File '{:.100}' does not exist", id), param,
                     "invalid_file");
    }
  }
  job.id = "ftjob-" + random_hex(24);
  job.created_at = unix_seconds();
  job.tell("info", fmt::format("Created fine-tuning job: {}", job.id));
  const std::lock_guard lock(mutex_);
  make_room(job.owner);
  make_private_folder(folder_of(job));
  auto entry = std::make_shared<Entry>();
  entry->job = std::move(job);
  replace_file(folder_of(entry->job) / kJobFile, save_job(entry->job)).or_throw();
  jobs_.push_back(entry);
  changed_.notify_all();
  return job_object(entry->job);
}

Json FineTuner::show(uint64_t owner, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  return job_object(find(owner, id).job);
}

Json FineTuner::list(uint64_t owner, const std::string& after, size_t limit) const {
  const std::lock_guard lock(mutex_);
  std::vector<EntryPtr> mine;
  for (auto entry = jobs_.rbegin(); entry != jobs_.rend(); ++entry)
    if ((*entry)->job.owner == owner) mine.push_back(*entry);
  return page_of(mine, after, limit, [](const EntryPtr& entry) { return job_object(entry->job); });
}

Json FineTuner::events(uint64_t owner, const std::string& id, const std::string& after, size_t limit) const {
  const std::lock_guard lock(mutex_);
  const std::vector<TuningEvent>& events = find(owner, id).job.events;
  return page_of(std::vector(events.rbegin(), events.rend()), after, limit, event_object);
}

Json FineTuner::checkpoints(uint64_t owner, const std::string& id, const std::string& after,
                            size_t limit) const {
  const std::lock_guard lock(mutex_);
  const std::vector<TuningCheckpoint>& all = find(owner, id).job.checkpoints;
  return page_of(std::vector(all.rbegin(), all.rend()), after, limit,
                 [&](const TuningCheckpoint& checkpoint) { return checkpoint_object(checkpoint, id); });
}

Json FineTuner::cancel(uint64_t owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  find(owner, id);  // throws
  const EntryPtr entry = *std::ranges::find(jobs_, id, [](const EntryPtr& e) { return e->job.id; });
  TuningJob& job = entry->job;
  if (is_over(job.status))
    throw ApiError(400, "invalid_request_error",
                   fmt::format("Job has already completed: {} {}", job.id, tuning_status_name(job.status)),
                   {}, "invalid_state");
  entry->cancel = true;  // what runs ends after its step
  if (job.status != TuningStatus::kRunning) {
    job.status = TuningStatus::kCancelled;
    job.finished_at = unix_seconds();
    job.tell("info", "Fine tuning job cancelled");
  }
  save(job);
  changed_.notify_all();
  Json shown = job_object(job);
  shown["status"] = "cancelled";
  return shown;
}

bool FineTuner::forget_model(uint64_t owner, const std::string& model) {
  const auto of_model = [&](const EntryPtr& entry) {
    return entry->job.owner == owner && !model.empty() && entry->job.fine_tuned_model == model;
  };
  TuningJob job;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(jobs_, of_model);
    if (found == jobs_.end()) return false;
    job = (*found)->job;
  }
  std::vector<std::string> names = {model};
  for (const TuningCheckpoint& checkpoint : job.checkpoints) names.push_back(checkpoint.model);
  for (const std::string& name : names)  // without the lock: one may be loading
    if (!options_.remove_model(name))
      throw ApiError(409, "invalid_request_error",
                     fmt::format("{} is answering requests; try again when they have ended", name), "model");
  const std::lock_guard lock(mutex_);
  std::erase_if(jobs_, of_model);
  std::error_code ignored;
  fs::remove_all(folder_of(job), ignored);
  return true;
}

bool FineTuner::wanted(const Entry& entry) const {
  const std::lock_guard lock(mutex_);
  return !stopping_ && !entry.cancel;
}

void FineTuner::work() {
  // Of this thread, and of those that training starts.
  if (::setpriority(PRIO_PROCESS, 0, 19) != 0) log_warn("fine-tuning: its priority stays as it is");
  std::unique_lock lock(mutex_);
  for (;;) {
    EntryPtr next;
    changed_.wait(lock, [&] {
      for (const EntryPtr& entry : jobs_)
        if (next == nullptr && !is_over(entry->job.status)) next = entry;
      return stopping_ || next != nullptr;
    });
    if (stopping_) return;
    lock.unlock();
    carry_out(next);
    lock.lock();
  }
}

void FineTuner::carry_out(const EntryPtr& entry) {
  TuningJob asked;
  {
    const std::lock_guard lock(mutex_);
    if (entry->cancel) return;
    entry->job.status = TuningStatus::kValidating;
    entry->job.tell("info", fmt::format("Validating training file: {}", entry->job.training_file));
    asked = entry->job;
  }
  train::TrainConfig config;
  try {
    const auto base = options_.find_model(asked.model);
    if (!base) fail(Errc::kNotFound, "the model {} is not served any more", asked.model);
    config = tuning_config(asked, *base, files_, folder_of(asked) / "run");
  } catch (const std::exception& error) {
    return end(entry, TuningStatus::kFailed, "invalid_training_file",
               words_for_client(asked, files_, error.what()), "training_file");
  }
  {
    const std::lock_guard lock(mutex_);
    TuningJob& job = entry->job;
    if (entry->cancel) return;
    job.status = TuningStatus::kRunning;
    job.chosen = true;
    job.used_epochs = config.num_epochs;
    job.used_rate_multiplier = job.rate_multiplier.value_or(1);
    job.used_batch_size = config.micro_batch_size * config.gradient_accumulation_steps;
    job.tell("info", "Files validated, moving job to running state");
    save(job);
  }
  fs::path adapter;
  Status status;
  try {
    status = options_.run(
        config,
        [this, entry](train::TrainRun& run, const train::RunProgress& progress) {
          return step(entry, run, progress);
        },
        [this, entry] { return wanted(*entry); }, adapter);
  } catch (const Error& error) {
    status = {error.code(), error.what()};
  } catch (const std::bad_alloc&) {
    status = {Errc::kOutOfMemory, "there is not enough memory for this run; a smaller batch_size may help"};
  } catch (const std::exception& error) {
    status = {Errc::kIo, error.what()};
  }
  if (status.ok()) return end(entry, TuningStatus::kSucceeded, {}, {}, {});
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ && !entry->cancel) return;  // the next process goes on
  }
  if (status.code() == Errc::kCancelled) return end(entry, TuningStatus::kCancelled, {}, {}, {});
  end(entry, TuningStatus::kFailed, "training_failed", status.text(), {});
}

bool FineTuner::step(const EntryPtr& entry, train::TrainRun& run, const train::RunProgress& progress) {
  // Some of the steps whose state is on disk anyway, as adapters that can be asked.
  const uint64_t saves = std::max<uint64_t>(1, progress.steps / kTimesSaved);
  const bool kept = progress.saved && progress.step < progress.steps && progress.step % saves == 0;
  if (kept) write_checkpoint(folder_of(entry->job), run, progress.step);
  const std::lock_guard lock(mutex_);
  TuningJob& job = entry->job;
  job.trained_tokens += progress.report.targets;
  job.estimated_finish = unix_seconds() + static_cast<int64_t>(progress.seconds_left);
  const uint64_t every = std::max<uint64_t>(1, progress.steps / kStepsTold);
  if (progress.step % every == 0 || progress.step == progress.steps || progress.valid)
    job.tell(
        "info",
        fmt::format("Step {}/{}: training loss={:.2f}{}", progress.step, progress.steps, progress.report.loss,
                    progress.valid ? fmt::format(", validation loss={:.2f}", *progress.valid) : ""),
        metrics_of(progress));
  if (kept) {
    if (job.checkpoints.size() == TuningJob::kCheckpointsMax) {
      std::error_code ignored;
      fs::remove(checkpoint_file(folder_of(job), job.checkpoints.front().step), ignored);
      job.checkpoints.erase(job.checkpoints.begin());
    }
    job.checkpoints.push_back(
        {.id = "ftckpt-" + random_hex(24),
         .created_at = unix_seconds(),
         .step = progress.step,
         .model = fmt::format("{}:ckpt-step-{}", model_name(base_name(job), job), progress.step),
         .metrics = metrics_of(progress)});
    save(job);
  }
  return !stopping_ && !entry->cancel;
}

// Of the model that the adapter belongs to, also where the job goes on from another job's.
std::string FineTuner::base_name(const TuningJob& job) const {
  const auto base = options_.find_model(job.model);
  if (!base) return job.model;
  return base->parent.empty() ? base->name : base->parent;
}

void FineTuner::end(const EntryPtr& entry, TuningStatus status, const std::string& code,
                    const std::string& message, const std::string& param) {
  const std::lock_guard lock(mutex_);
  TuningJob& job = entry->job;
  if (is_over(job.status)) return;  // it was cancelled before it began
  job.finished_at = unix_seconds();
  job.estimated_finish = 0;
  job.status = status;
  if (status == TuningStatus::kSucceeded) {
    job.fine_tuned_model = model_name(base_name(job), job);
    job.tell("info", fmt::format("New fine-tuned model created: {}", job.fine_tuned_model));
    serve(job);
    job.tell("info", "The job has successfully completed");
  } else if (status == TuningStatus::kCancelled) {
    job.tell("info", "Fine tuning job cancelled");
  } else {
    job.error_code = code;
    job.error_message = message;
    job.error_param = param;
    job.tell("error", message);
    log_warn("{}: {}", job.id, message);
  }
  save(job);
}

// What a job learned is a model over the file that it was asked for.
void FineTuner::serve(const TuningJob& job) {
  auto base = options_.find_model(job.model);
  if (!base) return log_warn("{}: its model {} is not served", job.fine_tuned_model, job.model);
  if (base->parent.empty()) base->parent = base->name;
  const auto add = [&](const std::string& name, const fs::path& adapter) {
    if (!fs::exists(adapter)) return log_warn("{}: {} is not there", name, adapter.string());
    ModelSpec spec = *base;
    spec.name = name;
    spec.adapters = {{adapter, 1}};
    spec.owner = job.owner;
    try {
      options_.add_model(std::move(spec));
    } catch (const ApiError& error) {
      log_warn("{}: {}", name, error.what());
    }
  };
  add(job.fine_tuned_model, folder_of(job) / "run" / train::kAdapterFile);
  for (const TuningCheckpoint& checkpoint : job.checkpoints)
    add(checkpoint.model, checkpoint_file(folder_of(job), checkpoint.step));
}

}  // namespace butterfly::server
