#include "planner/peer_rules.h"

#include <algorithm>
#include <numeric>

#include "cluster/cost/prediction.h"
#include "cluster/partition/order_search.h"

namespace butterfly::bench {
namespace {

using cluster::Plan;
using cluster::Problem;

double ram(const Problem& problem, size_t node) {
  return static_cast<double>(problem.cluster().nodes[node].ram_bytes);
}

std::vector<size_t> all_nodes(const Problem& problem) {
  std::vector<size_t> nodes(problem.nodes());
  std::iota(nodes.begin(), nodes.end(), size_t{0});
  return nodes;
}

std::optional<Plan> if_it_fits(const Problem& problem, Plan plan) {
  if (!cluster::why_not_fit(problem, plan).empty()) return std::nullopt;
  return plan;
}

// Counts in this order of nodes; zero leaves a node out.
Plan plan_of(const std::vector<size_t>& nodes, const std::vector<size_t>& counts) {
  Plan plan;
  size_t begin = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (counts[i] > 0) plan.stages.push_back({{nodes[i]}, begin, begin + counts[i], {1.0}});
    begin += counts[i];
  }
  return plan;
}

// Shares of `total` pieces by weight, the largest remainders rounded up.
std::vector<size_t> by_weight(const std::vector<double>& weights, size_t total) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<size_t> counts, order(weights.size());
  std::vector<double> rest;
  size_t given = 0;
  for (double w : weights) {
    const double exact = w / sum * static_cast<double>(total);
    counts.push_back(static_cast<size_t>(exact));
    rest.push_back(exact - static_cast<double>(counts.back()));
    given += counts.back();
  }
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rest[a] > rest[b]; });
  for (size_t i = 0; given < total; ++i, ++given) ++counts[order[i % order.size()]];
  return counts;
}

// llama.cpp: shares of free memory are summed up over all devices; layer i of n goes to the first whose sum
// is above i / n.
std::optional<Plan> llama_cpp(const Problem& problem) {
  const std::vector<size_t> nodes = all_nodes(problem);
  std::vector<double> sums;
  double sum = 0;
  for (size_t node : nodes) sums.push_back(sum += ram(problem, node));
  std::vector<size_t> counts(nodes.size());
  for (size_t i = 0; i < problem.pieces(); ++i) {
    const double at = static_cast<double>(i) / static_cast<double>(problem.pieces()) * sum;
    ++counts[static_cast<size_t>(std::upper_bound(sums.begin(), sums.end(), at) - sums.begin())];
  }
  return if_it_fits(problem, plan_of(nodes, counts));
}

// exo: the smallest set of nodes whose memory holds the model (of equal ones, that with most), then shares of
// memory with largest remainders.
std::optional<Plan> exo(const Problem& problem) {
  const auto need = static_cast<double>(problem.memory_bytes(0, problem.pieces()));
  std::vector<size_t> by_ram = all_nodes(problem);
  std::stable_sort(by_ram.begin(), by_ram.end(),
                   [&](size_t a, size_t b) { return ram(problem, a) > ram(problem, b); });
  double have = 0;
  std::vector<size_t> chosen;
  for (size_t node : by_ram) {
    if (have >= need) break;
    chosen.push_back(node);
    have += ram(problem, node);
  }
  if (have < need) return std::nullopt;
  std::sort(chosen.begin(), chosen.end());
  std::vector<double> weights;
  for (size_t node : chosen) weights.push_back(ram(problem, node));
  return if_it_fits(problem, plan_of(chosen, by_weight(weights, problem.pieces())));
}

// Tools that split by speed: all nodes, fastest first, shares of speed, no more than fits; what is over goes
// to those with room.
std::optional<Plan> speed_proportional(const Problem& problem) {
  std::vector<size_t> nodes = all_nodes(problem);
  const auto speed = [&](size_t node) { return 1 / problem.units()[node].time_sum.back(); };
  std::stable_sort(nodes.begin(), nodes.end(), [&](size_t a, size_t b) { return speed(a) > speed(b); });
  std::vector<double> weights;
  for (size_t node : nodes) weights.push_back(speed(node));
  std::vector<size_t> counts = by_weight(weights, problem.pieces());
  Plan plan;
  size_t begin = 0, over = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    size_t end = std::min(begin + counts[i] + over, problem.pieces());
    over = 0;
    while (end > begin && !problem.fits(nodes[i], begin, end)) --end, ++over;
    if (end > begin) plan.stages.push_back({{nodes[i]}, begin, end, {1.0}});
    begin = end;
  }
  // Still over: earlier nodes with room take more, from the end backwards.
  for (size_t round = 0; begin < problem.pieces() && round < problem.pieces(); ++round) {
    bool moved = false;
    for (size_t s = 0; s < plan.stages.size() && !moved; ++s) {
      Plan wider = plan;
      ++wider.stages[s].end;
      for (size_t later = s + 1; later < wider.stages.size(); ++later)
        ++wider.stages[later].begin, ++wider.stages[later].end;
      if (cluster::why_not_fit(problem, wider).empty()) plan = std::move(wider), ++begin, moved = true;
    }
    if (!moved) return std::nullopt;
  }
  if (begin < problem.pieces()) return std::nullopt;
  return if_it_fits(problem, std::move(plan));
}

// prima.cpp (Halda): the least sum of the nodes' times below their memory, links free, in the user's order.
// Nodes left with a single layer are dropped and it solves again.
std::optional<Plan> prima_cpp(const Problem& problem) {
  cluster::ClusterSpec free_links = problem.cluster();
  free_links.connect_all({0, 1e18});
  const Problem blind(problem.list(), free_links, {});
  std::vector<size_t> nodes = all_nodes(problem);
  std::optional<Plan> best;
  cluster::OrderSearch search(blind);
  while (true) {
    const cluster::Candidate chain = search.run(nodes);
    if (!(chain.latency_s < cluster::kNever)) return best;
    best = chain.plan(blind);
    nodes = chain.units;
    const auto weak = std::find_if(best->stages.begin(), best->stages.end(),
                                   [](const cluster::Stage& stage) { return stage.size() == 1; });
    if (weak == best->stages.end()) return best;
    nodes.erase(std::find(nodes.begin(), nodes.end(), weak->nodes[0]));
  }
}

constexpr PeerRule kRules[] = {
    {"llama.cpp", "all nodes, proportional to free RAM", llama_cpp},
    {"exo", "fewest nodes that fit, proportional to RAM", exo},
    {"speed-proportional", "all nodes, proportional to speed, capped by RAM", speed_proportional},
    {"prima.cpp", "least sum of times, links free", prima_cpp},
};

}  // namespace

std::span<const PeerRule> peer_rules() { return kRules; }

}  // namespace butterfly::bench
