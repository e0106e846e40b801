// Networks of the stages of a pipeline: what a machine needs to build any range of layers, all of whose
// weights learn, or beside which an adapter does.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/arch/model_config.h"
#include "train/networks/outline.h"
#include "train/task/config.h"
#include "train/trainer/network.h"

namespace butterfly::train {

// What a planner cuts: per piece of the chain (embedding, blocks, head) what is there and does not learn.
struct FrozenPieces {
  std::vector<uint64_t> bytes;
  std::vector<double> flops;  // of a row, forward and backward
};

// What all stages are made from. Immutable.
struct StageSource {
  NetworkOutline outline;
  std::optional<model::ModelFile> base;  // of an adapter: its frozen weights, found on this machine
  const model::ModelFile& file() const { return base ? *base : outline.file; }
  // Whether a table that learns is read by embedding and head.
  bool tied() const { return !base && !outline.file.has("output.weight"); }
};

// The whole network of a run as a planner and its stages see it. Throws Error kUnsupported for networks that
// cannot be cut.
StageSource stage_source(const TrainableNetwork& whole, std::span<const std::string> names);
FrozenPieces frozen_pieces(const StageSource& source, size_t layers);

// For other machines: `names` of all parameters, as the trainer of the whole network orders them. The base of
// an adapter is not in it.
void write_stage_source(const TrainableNetwork& whole, std::span<const std::string> names,
                        const std::filesystem::path& path);
// Throws Error naming the file for what was not written so, and where the base was looked for.
StageSource read_stage_source(const TrainConfig& config, const std::filesystem::path& path);

// The layers of a range, with their weights as they were written: those that learn as zeros, adapters with
// their values.
std::unique_ptr<TrainableNetwork> open_stage_network(const TrainConfig& config, const StageSource& source,
                                                     const model::LayerRange& range);

}  // namespace butterfly::train
