// A stage of a training pipeline: its network from an outline, and where its part of the run's state lies,
// here and in the arrays of the whole run.
#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cluster/training/cut_stages.h"
#include "cluster/training/train_plan.h"
#include "train/task/stage_network.h"
#include "train/train_run.h"
#include "train/trainer/stage_trainer.h"

namespace butterfly::runtime {

// What all members know of a job whose network is cut into stages. Immutable.
struct PipelineSource {
  train::TrainConfig config;
  uint64_t steps = 0;  // of the run
  train::StageSource network;
  size_t items = 1;    // of a micro-batch
  size_t threads = 0;  // of this node
};

// The trainer borrows the network.
struct PipelineStageNetwork {
  std::unique_ptr<train::TrainableNetwork> network;
  std::unique_ptr<train::StageTrainer> trainer;
};

// Throws Error kCorrupt for a plan that does not fit the network.
PipelineStageNetwork open_stage(const PipelineSource& source, const cluster::TrainPlan& plan,
                                cluster::TrainMemberId id);

using BytePieces = std::vector<std::span<std::byte>>;

// Of a stage: all weights that it reads, first a table that belongs to another one; those that it teaches;
// and the arrays of its optimizer.
BytePieces weights_read(const PipelineStageNetwork& stage, const cluster::TrainPlan& plan,
                        cluster::TrainMemberId id);
BytePieces weights_taught(const PipelineStageNetwork& stage);
BytePieces moments_of(const PipelineStageNetwork& stage);

// The same in the arrays of the whole run, in the same order.
BytePieces whole_weights(train::Trainer& whole, const cluster::TrainPlan& plan, cluster::TrainMemberId id,
                         bool with_table);
BytePieces whole_moments(train::Trainer& whole, const cluster::TrainPlan& plan, cluster::TrainMemberId id);

void copy_pieces(const BytePieces& from, const BytePieces& to);

// The run as pieces that a pipeline is cut from, with the bytes that training each takes. Throws Error for
// networks and settings that cannot be cut.
cluster::PipelineConfig pipeline_config(train::TrainRun& run, uint64_t memory_bytes);
// Of the parameters of the whole network.
std::vector<std::string> parameter_names(const train::Trainer& whole);
// What members of a pipeline agree on: SHA-256 of the rules of arithmetic, the settings and the network.
std::string pipeline_agreement(const train::TrainConfig& config, const train::StageSource& network);

}  // namespace butterfly::runtime
