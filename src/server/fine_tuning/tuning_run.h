// The training run of a fine-tuning job: its settings, and how it is carried out on one machine.
#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "model/arch/weights.h"
#include "server/fine_tuning/file_store.h"
#include "server/fine_tuning/tuning_job.h"
#include "server/models/served_model.h"
#include "train/task/config.h"

namespace butterfly::train {
class TrainRun;
struct RunProgress;
}  // namespace butterfly::train

namespace butterfly::server {

// A whole run: returns when it has ended, with the adapter's file. `on_step` after each step; false ends it
// with kCancelled, after a checkpoint; `wanted` is for runs that wait for their first step. Goes on from a
// checkpoint of its output_dir. Throws Error.
using TuningStep = std::function<bool(train::TrainRun& run, const train::RunProgress& progress)>;
using TuningWanted = std::function<bool()>;
using TuningRun = std::function<Status(const train::TrainConfig& config, const TuningStep& on_step,
                                       const TuningWanted& wanted, std::filesystem::path& adapter)>;

// On this machine, with `threads` of the lowest priority; 0: half of those it has. `packed`: what is in
// memory of a model's file already, because it is served; may be null.
using PackedOfFile = std::function<model::PackedWeights(const std::filesystem::path& file)>;
TuningRun local_tuning(size_t threads, PackedOfFile packed = nullptr);

// What a job asks for, and for the rest what fits data and model. `base` is the model it goes on from. Reads
// the files. Throws Error and ApiError for what cannot be learned from.
train::TrainConfig tuning_config(const TuningJob& job, const ModelSpec& base, const FileStore& files,
                                 const std::filesystem::path& output);

// Of what went wrong with a job's files: their ids instead of where they lie here, and nothing of keys that
// jobs do not have.
std::string words_for_client(const TuningJob& job, const FileStore& files, std::string words);

}  // namespace butterfly::server
