// One fine-tuning job as its owner sees it, in OpenAI's form, and as it is kept on disk.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "server/api/json.h"

namespace butterfly::server {

struct TuningEvent {
  std::string id;  // "ftevent-" and digits
  int64_t created_at = 0;
  std::string level;    // info, warn, error
  std::string message;  // for people
  Json data;            // of a step: its figures; else null
};

struct TuningCheckpoint {
  std::string id;  // "ftckpt-" and digits
  int64_t created_at = 0;
  uint64_t step = 0;
  std::string model;  // served under this name once the job has ended
  Json metrics;
};

enum class TuningStatus { kValidating, kQueued, kRunning, kSucceeded, kFailed, kCancelled };
std::string_view tuning_status_name(TuningStatus status);
// One that nothing more happens to.
inline bool is_over(TuningStatus status) { return status >= TuningStatus::kSucceeded; }

// What was asked for, and how it stands. Plain data.
struct TuningJob {
  std::string id;  // "ftjob-" and digits
  uint64_t owner = 0;
  std::string model;  // as it was asked for
  std::string training_file, validation_file, suffix;
  uint64_t seed = 0;
  bool preferences = false;  // method dpo
  double beta = 0.1;         // of it
  // As asked for; absent: chosen from data and model, and filled in when the run begins.
  std::optional<double> epochs, rate_multiplier;
  std::optional<uint64_t> batch_size;
  Json metadata;

  TuningStatus status = TuningStatus::kValidating;
  int64_t created_at = 0, finished_at = 0, estimated_finish = 0;
  std::string error_code, error_message, error_param;
  std::string fine_tuned_model;  // when it succeeded
  uint64_t trained_tokens = 0;
  bool chosen = false;  // the settings below are those of the run
  double used_epochs = 0, used_rate_multiplier = 1;
  uint64_t used_batch_size = 0;
  std::vector<TuningEvent> events;  // the oldest first, kEventsMax at most
  std::vector<TuningCheckpoint> checkpoints;

  static constexpr size_t kEventsMax = 1000;  // the first and the last ones stay
  static constexpr size_t kCheckpointsMax = 3;
  void tell(std::string level, std::string message, Json data = nullptr);
};

// OpenAI's objects.
Json job_object(const TuningJob& job);
Json event_object(const TuningEvent& event);
Json checkpoint_object(const TuningCheckpoint& checkpoint, const std::string& job);

// For the file of the job. read_job() throws Error and nlohmann's exceptions for what no save_job() wrote.
std::string save_job(const TuningJob& job);
TuningJob read_job(const std::string& text);

}  // namespace butterfly::server
