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
#include "server/fine_tuning/tuning_run.h"
#include "server/models/served_model.h"

namespace butterfly::server {

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
  void work();
  void carry_out(const EntryPtr& entry);
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
