// The files of a run's output folder that others look at while it goes on: `train status`, and the page of a
// server.
#pragma once
#include <filesystem>
#include <string>

#include "train/train_run.h"

namespace butterfly::train {

inline constexpr const char* kRunFactsFile = "run.json";      // what does not change: steps, unit, memory
inline constexpr const char* kMetricsFile = "metrics.jsonl";  // a line for each logged step
inline constexpr const char* kRunNodesFile = "nodes.json";    // of runs on several nodes: who does what
inline constexpr const char* kRunLockFile = "run.lock";       // the number of the process that trains
inline constexpr const char* kRunWishFile = "run.wish";       // "pause" or "cancel"

// Throws Error kIo.
void write_run_facts(TrainRun& run, const std::string& name);

// How the run of a folder stands, as JSON: its facts, "state" ("running", "paused", "done" or "stopped"),
// "points" of at most `points_max` steps ([step, loss, validation loss or null, items/s]), the last step's
// figures, seconds left, and the nodes. Reads what it finds: files that are missing or damaged leave
// something out. Throws Error kNotFound for a folder without a run.
std::string run_status_json(const std::filesystem::path& folder, size_t points_max);

}  // namespace butterfly::train
