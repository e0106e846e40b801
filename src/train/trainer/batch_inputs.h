// What a micro-batch fills into a built graph before it runs.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "graph/executor.h"
#include "train/trainer/network.h"

namespace butterfly::train {

// Room for what is worked out from the tokens; kept from one micro-batch to the next.
struct BatchRoom {
  std::vector<int32_t> tokens, positions, shorter_tokens, shorter_targets;
};

// Tokens of a sequence up to the last one that any sequence of `length` in the micro-batch has a target for,
// as a multiple of `unit`, at most `length`.
size_t used_length(std::span<const int32_t> targets, size_t length, size_t unit);
// The micro-batch with the first `shorter` tokens of each sequence of `length`; in `room`.
MicroBatch shortened(const MicroBatch& batch, size_t length, size_t shorter, BatchRoom& room);

struct BatchNumbers {
  float factor = 1;                        // of the loss: 1 / targets of the step
  uint64_t seed = 0, step = 0, index = 0;  // what dropout draws from
};

// Everything that the graph has an input for, but for rows of other stages. `length`: targets per item.
// Throws Error kInvalidArgument for a micro-batch of another size.
void fill_inputs(graph::Executor& executor, const BuiltNetwork& built, const MicroBatch& batch,
                 const BatchNumbers& numbers, BatchRoom& room);

// Tokens without their marks.
void ids_of(std::span<const int32_t> written, std::vector<int32_t>& ids);

// Targets that take part in a loss.
size_t count_targets(const MicroBatch& batch);

}  // namespace butterfly::train
