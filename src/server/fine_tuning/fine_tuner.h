// Carries out fine-tuning jobs, one at a time and after what is served, and serves what they learned.
#pragma once
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
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

struct FineTunerOptions {
  std::filesystem::path folder;  // only this user's; jobs outlive the process in it
  size_t owner_jobs_max = 32;    // of one key, those that ended included
  size_t owner_waiting_max = 4;  // of one key, that have not ended
  TuningRun run;
  // A model of the server by its name; nothing: there is none.
  std::function<std::optional<ModelSpec>(const std::string& name)> find_model;
  std::function<void(ModelSpec spec)> add_model;  // serve it from now on
  // And not any more, if nobody uses it: false.
  std::function<bool(const std::string& name)> remove_model;
};

// Thread-safe; one thread of its own, of the lowest priority, trains. A job that the process did not end goes
// on when it is started again, from its last checkpoint. Calls throw ApiError as OpenAI's service answers:
// 404 for a job that this owner has not, 429 beyond the bounds.
class FineTuner {
 public:
  FineTuner(FineTunerOptions options, FileStore& files);  // borrows `files`
  ~FineTuner();

  // Begins with what was left. Before it nothing is trained; models of jobs that ended are served from the
  // constructor on.
  void start();
  // Writes a checkpoint of what runs, and returns: the next process goes on.
  void stop();

  // `job` as it was asked for; gets its id and its place in the queue.
  Json create(TuningJob job);
  Json show(uint64_t owner, const std::string& id) const;
  // The newest first; `after` is the id of the last one of the page before, "" for the first.
  Json list(uint64_t owner, const std::string& after, size_t limit) const;
  Json events(uint64_t owner, const std::string& id, const std::string& after, size_t limit) const;
  Json checkpoints(uint64_t owner, const std::string& id, const std::string& after, size_t limit) const;
  Json cancel(uint64_t owner, const std::string& id);
  // Whether a job of this owner made this model; then it and its checkpoints are gone from the server and
  // from disk. Throws ApiError 409 while requests use one of them.
  bool forget_model(uint64_t owner, const std::string& model);

 private:
  struct Entry {
    TuningJob job;
    bool cancel = false;
  };
  using EntryPtr = std::shared_ptr<Entry>;

  std::filesystem::path folder_of(const TuningJob& job) const { return options_.folder / job.id; }
  const Entry& find(uint64_t owner, const std::string& id) const;  // holding the lock
  void make_room(uint64_t owner);                                  // the same
  void save(const TuningJob& job) const;                           // the same
  bool wanted(const Entry& entry) const;
  std::string words_for(const TuningJob& job, std::string words) const;
  void work();
  void carry_out(const EntryPtr& entry);
  train::TrainConfig config_of(const TuningJob& job, const ModelSpec& base) const;
  bool step(const EntryPtr& entry, train::TrainRun& run, const train::RunProgress& progress);
  void end(const EntryPtr& entry, TuningStatus status, const std::string& code, const std::string& message,
           const std::string& param);
  void serve(const TuningJob& job);
  std::string base_name(const TuningJob& job) const;

  const FineTunerOptions options_;
  FileStore& files_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<EntryPtr> jobs_;  // the oldest first
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace butterfly::server
