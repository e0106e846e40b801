#include "cluster/training/cut_stages.h"

#include <algorithm>
#include <numeric>

#include "cluster/partition/partitioner.h"

namespace butterfly::cluster {
namespace {

Problem problem_of(const PipelineConfig& config, std::span<const StageCandidate> members,
                   std::span<const size_t> chosen) {
  PieceList list;
  list.model = "training";
  list.share_units = 1;
  for (const TrainPiece& piece : config.pieces) {
    Piece part;
    part.name = "piece " + std::to_string(list.pieces.size());
    part.decode.f32_flops = std::max(piece.flops, 1.0);
    part.prefill = part.decode;
    part.weight_bytes = piece.bytes;
    part.decode_out_bytes = part.prefill_out_bytes = 1;
    list.pieces.push_back(std::move(part));
  }
  list.decode_in_bytes = list.prefill_in_bytes = 1;
  ClusterSpec cluster;
  for (const size_t i : chosen) {
    const double speed = std::max(members[i].speed, 1e-9);
    NodeSpec node;
    node.name = "member " + std::to_string(i);
    node.f32 = node.int8 = {speed, speed};
    node.memory = {1e18, 1e18};
    node.ram_bytes = members[i].memory;
    node.compute_efficiency = node.other_efficiency = node.memory_efficiency = 1;
    cluster.nodes.push_back(std::move(node));
  }
  cluster.connect_all({.latency_s = 1e-12, .bandwidth = 1e18});
  return Problem(std::move(list), std::move(cluster), {.objective = Objective::kThroughput});
}

Result<std::vector<StageCut>> cut(const PipelineConfig& config, std::span<const StageCandidate> members,
                                  std::span<const size_t> chosen) {
  auto found = default_strategy().partition(problem_of(config, members, chosen));
  if (!found) return found.status();
  std::vector<StageCut> cuts;
  for (const Stage& stage : found->plan.stages)
    cuts.push_back(
        {chosen[stage.nodes[0]], static_cast<uint32_t>(stage.begin), static_cast<uint32_t>(stage.end)});
  return cuts;
}

}  // namespace

Result<std::vector<StageCut>> cut_stages(const PipelineConfig& config,
                                         std::span<const StageCandidate> members) {
  std::vector<size_t> order(members.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // The fastest first; of equal ones those with most room, then the earlier.
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return members[a].speed != members[b].speed ? members[a].speed > members[b].speed
                                                : members[a].memory > members[b].memory;
  });
  const size_t most =
      config.stages_max == 0 ? members.size() : std::min<size_t>(config.stages_max, members.size());
  Result<std::vector<StageCut>> found = Status{Errc::kOutOfMemory, "no member"};
  for (size_t count = most; count <= members.size() && count > 0; ++count) {
    std::vector<size_t> chosen(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
    std::ranges::sort(chosen);
    found = cut(config, members, chosen);
    if (found) return found;
  }
  return found;
}

}  // namespace butterfly::cluster
