// metrics.jsonl: one line of numbers per logged step.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "train/trainer/trainer.h"

namespace butterfly::train {

// Throws Error kIo.
void append_metrics(const std::filesystem::path& path, uint64_t step, const StepReport& report,
                    double items_per_second, double waited, std::optional<double> valid,
                    std::optional<double> valid_right);

// Leaves out the lines behind `step`, and a torn last one: a run that goes on writes them again. The file is
// replaced as a whole. Does nothing if there is none.
void keep_metrics_up_to(const std::filesystem::path& path, uint64_t step);

struct MetricsLine {
  uint64_t step = 0;
  double loss = 0;
  std::optional<double> valid, valid_right;
};
// Lines that cannot be read are passed over.
std::vector<MetricsLine> read_metrics(const std::filesystem::path& path);

}  // namespace butterfly::train
