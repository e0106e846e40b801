// Which layers of a network train on which member, where no member has room for all of them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace butterfly::cluster {

// A part of the chain that stays whole: the embedding, a block, the head.
struct TrainPiece {
  double flops = 0;     // of a micro-batch, forward and backward
  uint64_t bytes = 0;   // while it is trained: weights, gradients, moments, values of passes
  uint32_t blocks = 0;  // norm blocks of its parameters, behind those of the piece before
};

// What a pipeline is cut from.
struct PipelineConfig {
  std::vector<TrainPiece> pieces = {};
  // The head has the matrix of the embedding: the first blocks of all, which belong to the head's stage,
  // where their gradients meet. Those of `pieces` do not count them.
  uint32_t tied_blocks = 0;
  uint32_t stages_max = 0;  // 0: as many as there are members
  uint32_t in_flight = 4;   // micro-batches at least, at every stage but the last
  uint64_t memory = 0;      // of the leader's node
};

struct StageCandidate {
  double speed = 1;     // flops per second, or in proportion to it
  uint64_t memory = 0;  // bytes for training
};

struct StageCut {
  size_t member = 0;            // index
  uint32_t begin = 0, end = 0;  // pieces
  friend bool operator==(const StageCut&, const StageCut&) = default;
};

// Stages in the order of the pieces, none empty: the slowest as fast as can be, on `stages_max` members at
// most where those have room. kOutOfMemory, in words, where all members together have not. The links are not
// looked at: a hop is hidden behind other micro-batches.
Result<std::vector<StageCut>> cut_stages(const PipelineConfig& config,
                                         std::span<const StageCandidate> members);

}  // namespace butterfly::cluster
