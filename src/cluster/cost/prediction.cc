#include "cluster/cost/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/units.h"
#include "cluster/cost/piece_time.h"

namespace butterfly::cluster {
namespace {

// Members of a group have whole units, at least one each, and together all of them.
void check_shares(const Problem& problem, const Stage& stage) {
  const auto units = static_cast<double>(problem.list().share_units);
  if (stage.shares.size() != stage.nodes.size())
    fail(Errc::kInvalidArgument, "stage [{}, {}) has {} nodes and {} shares", stage.begin, stage.end,
         stage.nodes.size(), stage.shares.size());
  double sum = 0;
  for (double share : stage.shares) {
    sum += share;
    if (!(share * units >= 1 - 1e-9) || std::abs(share * units - std::round(share * units)) > 1e-9)
      fail(Errc::kInvalidArgument, "stage [{}, {}): a share of {}, expected whole parts of 1/{}", stage.begin,
           stage.end, share, problem.list().share_units);
  }
  if (std::abs(sum - 1) > 1e-9)
    fail(Errc::kInvalidArgument, "stage [{}, {}): shares sum to {}, expected 1", stage.begin, stage.end, sum);
}

void check_plan(const Problem& problem, const Plan& plan) {
  std::vector<bool> used(problem.nodes());
  size_t next = 0;
  for (const Stage& stage : plan.stages) {
    if (stage.begin != next || stage.end <= stage.begin || stage.end > problem.pieces())
      fail(Errc::kInvalidArgument, "a stage has pieces [{}, {}), expected it to begin at {} of {}",
           stage.begin, stage.end, next, problem.pieces());
    next = stage.end;
    if (stage.nodes.empty())
      fail(Errc::kInvalidArgument, "stage [{}, {}) has no node", stage.begin, stage.end);
    if (stage.nodes.size() > 1 && !stage.shares.empty()) check_shares(problem, stage);
    if (stage.end < problem.pieces() && problem.has_last_node(stage.nodes))
      fail(Errc::kInvalidArgument, "stage [{}, {}) uses {}, which only the last stage may", stage.begin,
           stage.end, problem.cluster().nodes[*problem.options().last_node].name);
    for (size_t node : stage.nodes) {
      if (node >= problem.nodes())
        fail(Errc::kInvalidArgument, "node {}: the cluster has {}", node, problem.nodes());
      if (used[node])
        fail(Errc::kInvalidArgument, "node {} has two stages; the pieces of a node stand together",
             problem.cluster().nodes[node].name);
      used[node] = true;
    }
  }
  if (next != problem.pieces())
    fail(Errc::kInvalidArgument, "the plan ends at piece {}, the model has {}", next, problem.pieces());
}

// A node's own unit, or a group's, which is kept in `made`.
const Unit& unit_of(const Problem& problem, const Stage& stage, Unit& made) {
  if (stage.nodes.size() == 1) return problem.units()[stage.nodes[0]];
  return made = problem.unit_of(stage);
}

// What the members of a group send each other in a step.
double bytes_between(const PieceList& list, const Piece& piece, const Unit& unit) {
  const auto others = static_cast<double>(unit.nodes.size()) - 1;
  double subtrees = 0;
  size_t begin = 0;
  for (double share : unit.shares) {
    const auto units = static_cast<size_t>(std::lround(share * static_cast<double>(list.share_units)));
    subtrees += static_cast<double>(subtree_count(begin, begin + units));
    begin += units;
  }
  // Of a slice each: sums to who finishes it, and the result to all.
  if (piece.decode_is_long && unit.nodes.size() >= kMembersToSlice)
    subtrees = 1 + subtrees / static_cast<double>(unit.nodes.size());
  return (piece.decode_sum_bytes * subtrees + piece.decode_spread_bytes) * others +
         piece.decode_gather_bytes * (1 - unit.shares[0]);
}

double prefill_seconds(const Problem& problem, const Piece& piece, const Unit& unit, size_t member) {
  const NodeSpec& node = problem.cluster().nodes[unit.nodes[member]];
  PieceTime whole = piece_time(piece.prefill_whole, node);
  whole.overhead_s = 0;
  return shared_seconds(whole.seconds(), piece_time(piece.prefill, node).seconds(), unit.shares[member]);
}

StagePrediction predict_stage(const Problem& problem, const Stage& stage, const Unit& unit) {
  StagePrediction out;
  out.seconds = unit.seconds(stage.begin, stage.end);
  for (size_t i = stage.begin; i < stage.end; ++i) {
    const Piece& piece = problem.list().pieces[i];
    double longest = 0;
    PieceTime slowest;
    for (size_t m = 0; m < unit.nodes.size(); ++m) {
      const NodeSpec& node = problem.cluster().nodes[unit.nodes[m]];
      const PieceTime decode = piece_time(piece.decode, node), whole = piece_time(piece.decode_whole, node);
      const auto mine = [&](double PieceTime::*kind) {
        return shared_seconds(whole.*kind, decode.*kind, unit.shares[m]);
      };
      const PieceTime time{mine(&PieceTime::compute_s), mine(&PieceTime::memory_s), decode.overhead_s};
      if (time.seconds() < longest) continue;
      longest = time.seconds();
      slowest = time;
    }
    double prefill = 0;
    for (size_t m = 0; m < unit.nodes.size(); ++m)
      prefill = std::max(prefill, prefill_seconds(problem, piece, unit, m));
    out.prefill_s += prefill + unit.wire.seconds(piece.prefill_exchanged());
    out.exchange_s += unit.wire.seconds(piece.decode_exchanged());
    out.compute_s += slowest.compute_s;
    out.memory_s += slowest.memory_s;
    out.weight_bytes += piece.weight_bytes;
    out.kv_bytes += piece.kv_bytes;
  }
  out.room_bytes = unit.memory_bytes;
  for (size_t m = 0; m < unit.nodes.size(); ++m) {
    const double disk = problem.cluster().nodes[unit.nodes[m]].disk;
    if (disk > 0)
      out.load_s = std::max(out.load_s, unit.shares[m] * static_cast<double>(out.weight_bytes) / disk);
  }
  return out;
}

}  // namespace

Prediction predict(const Problem& problem, const Plan& plan) {
  check_plan(problem, plan);
  const PieceList& list = problem.list();
  const std::vector<size_t> coordinator = {problem.cluster().coordinator};
  Prediction out;
  double stage_sum = 0, stage_max = 0;
  const std::vector<size_t>* from = &coordinator;
  double bytes = list.decode_in_bytes, prefill_bytes = list.prefill_in_bytes;
  const auto travel = [&](const std::vector<size_t>& to, Problem::Hop& hop) {
    hop = problem.hop_between(*from, to, bytes, prefill_bytes);
    out.latency_s += hop.message_s;
    out.bottleneck_s = std::max(out.bottleneck_s, hop.busy_s);
    if (*from != to && hop.message_s > 0) {
      ++out.hops;
      out.bytes_per_step += bytes * static_cast<double>(to.size());
    }
    // The prompt's own way, without its weight in the objective.
    if (hop.message_s > 0 && (*from)[0] != to[0])
      out.first_token_s += problem.cluster().link((*from)[0], to[0]).message_s(prefill_bytes);
  };
  for (const Stage& stage : plan.stages) {
    Unit made;
    const Unit& unit = unit_of(problem, stage, made);
    StagePrediction& s = out.stages.emplace_back(predict_stage(problem, stage, unit));
    travel(stage.nodes, s.hop_in);
    out.latency_s += s.seconds;
    out.first_token_s += s.prefill_s;
    out.load_s = std::max(out.load_s, s.load_s);
    stage_sum += s.seconds;
    stage_max = std::max(stage_max, s.seconds);
    for (size_t i = stage.begin; i < stage.end && stage.nodes.size() > 1; ++i)
      out.bytes_per_step += bytes_between(list, list.pieces[i], unit);
    from = &stage.nodes;
    bytes = list.pieces[stage.end - 1].decode_out_bytes;
    prefill_bytes = list.pieces[stage.end - 1].prefill_out_bytes;
  }
  travel(coordinator, out.hop_out);
  out.bottleneck_s = std::max(out.bottleneck_s, stage_max);
  const auto stages = static_cast<double>(plan.stages.size());
  out.load_balance = stage_max > 0 ? stage_sum / stages / stage_max : 1;
  const auto batch = static_cast<double>(list.batch);
  const auto in_flight = static_cast<double>(problem.options().batches_in_flight);
  out.round_s = in_flight == 0 ? out.bottleneck_s : std::max(in_flight * out.bottleneck_s, out.latency_s);
  out.tokens_per_s = batch * std::max(in_flight, 1.0) / out.round_s;
  out.streams_to_fill = batch * out.latency_s / out.bottleneck_s;
  return out;
}

double objective_seconds(const Problem& problem, const Prediction& prediction) {
  if (problem.options().objective == Objective::kLatency) return prediction.latency_s;
  // A limit that equals the plan's latency to the last digits is kept.
  if (prediction.latency_s > problem.options().latency_limit_s * (1 + 1e-9)) return kNever;
  return prediction.round_s;
}

std::string why_not_fit(const Problem& problem, const Plan& plan) {
  for (const Stage& stage : plan.stages) {
    Unit made;
    const Unit& unit = unit_of(problem, stage, made);
    for (size_t i = 0; i < unit.nodes.size(); ++i) {
      const uint64_t need = problem.member_bytes(unit.shares[i], stage.begin, stage.end);
      const NodeSpec& node = problem.cluster().nodes[unit.nodes[i]];
      if (need > node.ram_bytes)
        return fmt::format("{} would hold {} of weights and cache, it has room for {}", node.name,
                           format_bytes(need), format_bytes(node.ram_bytes));
    }
  }
  return {};
}

}  // namespace butterfly::cluster
