#include "cluster/balance/rebalance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cluster/cost/piece_time.h"
#include "cluster/partition/partitioner.h"

namespace butterfly::cluster {
namespace {

ThreadedRate divided(const ThreadedRate& rate, double by) { return {rate.one / by, rate.all / by}; }

bool holds(const Plan& plan, size_t node, size_t piece) {
  return std::any_of(plan.stages.begin(), plan.stages.end(), [&](const Stage& stage) {
    return piece >= stage.begin && piece < stage.end &&
           std::find(stage.nodes.begin(), stage.nodes.end(), node) != stage.nodes.end();
  });
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

void remember(BalanceState& state, const BalanceMeasurement& measured, size_t window) {
  state.log_slowness.resize(measured.slowness.size());
  for (size_t i = 0; i < measured.slowness.size(); ++i) {
    if (!measured.slowness[i] || !(*measured.slowness[i] > 0)) continue;
    std::vector<double>& last = state.log_slowness[i];
    if (last.size() == window) last.erase(last.begin());
    last.push_back(std::log(*measured.slowness[i]));
  }
}

// Standard error of the median, from the median distance to it: 1.25 x 1.48 x distance / sqrt(n) for normal
// noise.
double uncertainty(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double middle = median(values);
  std::vector<double> distances;
  for (double v : values) distances.push_back(std::abs(v - middle));
  return 1.25 * 1.48 * median(distances) / std::sqrt(static_cast<double>(values.size()));
}

}  // namespace

void slow_down(NodeSpec& node, double slowness) {
  node.f32 = divided(node.f32, slowness);
  node.int8 = divided(node.int8, slowness);
  node.memory = divided(node.memory, slowness);
  node.piece_overhead_s *= slowness;
}

Problem slowed(const Problem& problem, const std::vector<double>& slowness) {
  ClusterSpec cluster = problem.cluster();
  for (size_t i = 0; i < cluster.size(); ++i) slow_down(cluster.nodes[i], slowness[i]);
  return Problem(problem.list(), std::move(cluster), problem.options());
}

double moving_seconds(const Problem& problem, const Plan& from, const Plan& to) {
  const PieceList& list = problem.list();
  const size_t coordinator = problem.cluster().coordinator;
  const double prompts = static_cast<double>(list.streams * list.context) /
                         static_cast<double>(std::max<size_t>(list.prompt, 1));
  double longest = 0;
  for (const Stage& stage : to.stages)
    for (size_t node : stage.nodes) {
      const NodeSpec& spec = problem.cluster().nodes[node];
      double bytes = 0, rebuild = 0;
      for (size_t i = stage.begin; i < stage.end; ++i) {
        if (holds(from, node, i)) continue;
        bytes += static_cast<double>(list.pieces[i].weight_bytes);
        // Caches are half full on average.
        if (list.pieces[i].kv_bytes > 0)
          rebuild += 0.5 * prompts * piece_time(list.pieces[i].prefill, spec).seconds();
      }
      double load = 0;
      if (bytes > 0 && spec.disk > 0)
        load = bytes / spec.disk;
      else if (bytes > 0 && node != coordinator)
        load = problem.cluster().link(coordinator, node).message_s(bytes);
      longest = std::max(longest, load + rebuild);
    }
  return longest;
}

BalanceDecision rebalance(const Problem& problem, const Plan& current, const BalanceMeasurement& measured,
                          BalanceState state, const BalanceOptions& options) {
  remember(state, measured, options.window);
  std::vector<double> slowness;
  double scatter = 0;
  for (const std::vector<double>& last : state.log_slowness) {
    slowness.push_back(last.empty() ? 1 : std::exp(median(last)));
    scatter = std::max(scatter, uncertainty(last));
  }
  // Three standard errors of the noisiest node: it may seem so many times slower than it is, and a best plan
  // that only follows noise does not look better than this.
  const double gain_min = 1 - (1 - options.gain_min) * std::exp(-3 * scatter);
  const Problem now = slowed(problem, slowness);
  BalanceDecision out;
  out.plan = current;
  out.slowness = slowness;
  out.current_s = out.planned_s = objective_seconds(now, predict(now, current));
  const Result<PlannedChain> best = make_plan(now, default_strategy());
  const auto stay = [&](std::string reason) {
    out.reason = std::move(reason);
    out.state = std::move(state);
    return out;
  };
  if (!best) {
    state.agreeing = 0;
    return stay("no other plan: " + best.status().text());
  }
  const double gain = 1 - best->objective_s / out.current_s;
  if (!(gain >= gain_min) || best->plan == current) {
    state.agreeing = 0;
    return stay(fmt::format("the best plan is {:.0f} % better, less than {:.0f} %", 100 * std::max(gain, 0.0),
                            100 * gain_min));
  }
  out.planned_s = best->objective_s;
  out.moving_s = moving_seconds(now, current, best->plan);
  out.net_gain_s = gain * options.horizon_s - out.moving_s;
  if (++state.agreeing < options.confirmations)
    return stay(fmt::format("{:.0f} % better, seen {} of {} times", 100 * gain, state.agreeing,
                            options.confirmations));
  if (out.net_gain_s <= 0)
    return stay(fmt::format("{:.0f} % better, but moving takes {:.1f} s and saves {:.1f} s in {:.0f} s",
                            100 * gain, out.moving_s, gain * options.horizon_s, options.horizon_s));
  const double since = measured.now_s - state.moved_at_s;
  if (since < state.rest_s)
    return stay(fmt::format("{:.0f} % better, but the last move was {:.0f} s ago, less than {:.0f} s",
                            100 * gain, since, state.rest_s));
  out.move = true;
  out.plan = best->plan;
  state.agreeing = 0;
  state.rest_s = since > std::max(options.calm_s, 4 * state.rest_s)
                     ? options.rest_s
                     : std::min(2 * state.rest_s, options.rest_max_s);
  state.moved_at_s = measured.now_s;
  return stay(fmt::format("{:.0f} % better; moving takes {:.1f} s and saves {:.1f} s in {:.0f} s", 100 * gain,
                          out.moving_s, gain * options.horizon_s, options.horizon_s));
}

}  // namespace butterfly::cluster
