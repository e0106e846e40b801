// A training run that goes on in another process of this machine: paused, resumed, cancelled by files in its
// output folder.
#pragma once
#include <chrono>
#include <filesystem>
#include <string>

namespace butterfly::cli {

// Held by the process that trains, as long as it does: one run at a time in a folder. Of one thread.
class RunControl {
 public:
  // Throws Error kInvalidArgument where another process trains in this folder.
  explicit RunControl(const std::filesystem::path& folder);
  ~RunControl();
  RunControl(const RunControl&) = delete;
  RunControl& operator=(const RunControl&) = delete;

  enum class Wish { kNone, kPause, kCancel };
  // What was asked for. Looks at the disk ten times a second at most.
  Wish wish();

 private:
  const std::filesystem::path folder_;
  int lock_ = -1;
  Wish wish_ = Wish::kNone;
  std::chrono::steady_clock::time_point looked_at_ = {};
};

// "pause", "resume" or "cancel" for the run of this folder; returns what to tell. Throws Error kNotFound
// where none goes on.
std::string control_run(const std::filesystem::path& folder, const std::string& word);

}  // namespace butterfly::cli
