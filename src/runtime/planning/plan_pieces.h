// A model as the planner sees it: flops and bytes of each piece, read off the graph that running it would
// use.
#pragma once
#include "cluster/cost/piece.h"
#include "model/formats/model_file.h"

namespace butterfly::runtime {

// For what a plan is made.
struct PlanWorkload {
  size_t context = 0;           // positions that each stream's cache has room for; 0: the model's, up to 4096
  size_t depth = SIZE_MAX;      // positions in the cache when a step is timed; SIZE_MAX: half the context
  size_t streams = 1;           // at once, over all batches
  size_t batch = 1;             // streams that share a step
  size_t prompt = 512;          // tokens of a prompt
  size_t rows_max = 512;        // prompt tokens that run at once
  size_t kv_value_bytes = 2;    // of a cached value
  double wire_value_bytes = 4;  // of a row's value on its way to the next piece
  // What the last piece sends back per row: a token and its probability, or all logits for others to sample
  // from.
  bool return_logits = false;
  bool shares = false;  // nodes may share pieces: what each of them has whole is read off, too
};

// Embedding, blocks, head. Builds each piece's graph and asks every op; loads no values. Weights of experts:
// the number of different experts that rows which choose u of E at random touch, E (1 - (1 - u/E)^rows).
// Throws Error as loading the model would.
cluster::PieceList plan_pieces(const model::ModelFile& file, const PlanWorkload& workload);

}  // namespace butterfly::runtime
