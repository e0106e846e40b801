// How a training run on several nodes stands: for programs, for people and for Prometheus.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/training/training_leader.h"
#include "train/run_files.h"

namespace butterfly::cli {

// Who did how much, where its time went, and what was sent. One line.
std::string training_report_json(const runtime::TrainingReport& report, uint64_t steps,
                                 std::string_view state);
// Of what training_report_json() wrote. Throw Error kCorrupt.
std::string training_report_text(std::string_view json);
std::string training_report_metrics(std::string_view json);  // Prometheus' text format

// In the output folder of a run on several nodes: how it stands, that every ten seconds, and one step as a
// picture.
inline constexpr const char* kTrainNodesFile = train::kRunNodesFile;
inline constexpr const char* kTrainNodesLines = "nodes.jsonl";
inline constexpr const char* kTrainStepPicture = "step.svg";

}  // namespace butterfly::cli
