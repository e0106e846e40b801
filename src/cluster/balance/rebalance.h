// When to change a running plan: measured step times in; a better plan, its gain and its price out. A pure
// function: the caller keeps the state and carries the move out between two steps.
//
// A node's speed is the median of its last measurements, so one slow step changes nothing. A move is made
// only when
//   - the best plan for these speeds is better by gain_min, plus what the measurements' scatter could feign,
//   - that was so in `confirmations` measurements in a row,
//   - it earns more than the move costs within horizon_s,
//   - the last move is long enough ago. That time doubles with every move and falls back after a calm while,
//   so a node
//     that comes and goes is followed less and less often.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cluster/cost/problem.h"

namespace butterfly::cluster {

struct BalanceOptions {
  double gain_min = 0.10;  // share of the objective
  size_t window = 6;       // measurements that count
  size_t confirmations = 2;
  double horizon_s = 300;
  double smoothing = 0.3;  // weight of a new measurement
  double rest_s = 30;      // after a move; doubles with each
  double rest_max_s = 3600;
  double calm_s = 1800;  // without a move: the rest falls back
};

// How much slower a node is than the problem says: 1 as planned, 10 ten times slower.
struct BalanceMeasurement {
  double now_s = 0;
  // By node; empty for nodes without a figure. A stage's is measured step time / predicted step time; of idle
  // nodes a probe's.
  std::vector<std::optional<double>> slowness;
};

struct BalanceState {
  std::vector<std::vector<double>> log_slowness;  // by node, the last measurements, oldest first
  size_t agreeing = 0;                            // measurements in a row that asked for a move
  double rest_s = 0;                              // of the last move
  double moved_at_s = -1e300;
};

struct BalanceDecision {
  bool move = false;
  Plan plan;                     // the better one, or the current one
  double current_s = 0;          // objective of the current plan at the measured speeds
  double planned_s = 0;          // of `plan`
  double moving_s = 0;           // loading what moves, and rebuilding its caches
  double net_gain_s = 0;         // saved within the horizon, less moving_s
  std::vector<double> slowness;  // by node, as it was taken
  std::string reason;            // in words, also when nothing moves
  BalanceState state;            // for the next call
};

BalanceDecision rebalance(const Problem& problem, const Plan& current, const BalanceMeasurement& measured,
                          BalanceState state, const BalanceOptions& options = {});

// The node as it is when everything takes so many times as long.
void slow_down(NodeSpec& node, double slowness);
// The problem with every node slower by its factor.
Problem slowed(const Problem& problem, const std::vector<double>& slowness);

// Seconds until every node has loaded the pieces it did not have (from its disk, or from the coordinator
// where the disk is not known) and rebuilt their caches; nodes work side by side.
double moving_seconds(const Problem& problem, const Plan& from, const Plan& to);

}  // namespace butterfly::cluster
