// The loss over the steps, as an SVG.
#pragma once
#include <filesystem>
#include <span>
#include <string>

#include "train/metrics.h"

namespace butterfly::train {

// Training loss (a thin line, and a smooth one) and validation loss (dots). The axis of losses is
// logarithmic.
std::string loss_plot(std::span<const MetricsLine> lines);

// From metrics.jsonl. Throws Error kIo.
void write_loss_plot(const std::filesystem::path& metrics, const std::filesystem::path& svg);

}  // namespace butterfly::train
