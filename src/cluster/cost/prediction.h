// What a plan will do: latency, tokens per second, memory, and how good it is. Formulas stand beside the
// figures.
#pragma once
#include <string>
#include <vector>

#include "cluster/cost/problem.h"

namespace butterfly::cluster {

struct StagePrediction {
  double seconds = 0;     // of one decode step (plus the token's share of the prompt, if it was asked for)
  double compute_s = 0;   // arithmetic of that step alone, and
  double memory_s = 0;    // bytes read alone; a piece takes the longer of the two
  double exchange_s = 0;  // of groups: what members send each other, part of `seconds`
  double prefill_s = 0;   // one prompt
  Problem::Hop hop_in;    // from the stage before, or the coordinator
  uint64_t weight_bytes = 0;
  uint64_t kv_bytes = 0;
  uint64_t room_bytes = 0;  // that it may use
  double load_s = 0;        // weights from disk; 0: disk not known
};

struct Prediction {
  std::vector<StagePrediction> stages;
  Problem::Hop hop_out;     // last stage to coordinator
  double latency_s = 0;     // one token of one stream: sum of all stages and hops
  double bottleneck_s = 0;  // longest stage or busiest link: time between two steps of a full pipeline
  double round_s = 0;       // max(batches in flight x bottleneck, latency); 0 in flight: the bottleneck
  double tokens_per_s =
      0;  // of all streams: batch x batches in flight / round; 0 in flight: batch / bottleneck
  double streams_to_fill = 0;  // batch x latency / bottleneck: streams that keep the slowest stage busy
  double first_token_s = 0;    // one prompt through all stages and hops
  double load_s = 0;           // slowest stage's weights from its disk; nodes load side by side
  // Quality.
  double load_balance = 0;    // mean stage time / longest stage time, in (0, 1]
  double bytes_per_step = 0;  // over all links, hand-overs in groups included
  size_t hops = 0;            // messages between different nodes in one step
};

// Throws Error kInvalidArgument, in words, for a plan that does not cover every piece once and in order, uses
// a node twice or one that does not exist. Does not ask whether it fits: why_not_fit() does.
Prediction predict(const Problem& problem, const Plan& plan);

// What the objective minimises, in seconds. A plan above the latency limit: kNever.
double objective_seconds(const Problem& problem, const Prediction& prediction);

// Empty, or which stage needs how much more than its node has.
std::string why_not_fit(const Problem& problem, const Plan& plan);

}  // namespace butterfly::cluster
