// planner_corpus [CLUSTERS] [PLOT.svg]: every strategy, and the rules of other tools, on seeded clusters; the
// ratio of their time to the optimum's.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>

#include "cluster/partition/partitioner.h"
#include "planner/corpus.h"
#include "planner/corpus_plot.h"
#include "planner/peer_rules.h"
#include "runtime/planning/model_shape.h"
#include "runtime/planning/plan_pieces.h"

namespace butterfly::bench {
namespace {

constexpr uint64_t kSeed = 2026;

struct ShapeRow {
  const char* shape;
  const char* words;
};
constexpr ShapeRow kShapes[] = {{"qwen2-1.5b", "1.5B"}, {"llama-8b", "8B"}, {"llama-70b", "70B"}};

using cluster::Objective;
using cluster::Plan;
using cluster::Problem;

std::vector<RatioRow> empty_rows() {
  std::vector<RatioRow> rows;
  for (const auto& strategy : cluster::partition_strategies())
    if (strategy.nodes != cluster::NodeChoice::kGiven)
      rows.push_back({std::string(strategy.name), true, {}, 0});
  for (const PeerRule& rule : peer_rules()) rows.push_back({std::string(rule.name), false, {}, 0});
  return rows;
}

void add_cluster(const Problem& problem, std::vector<RatioRow>& rows) {
  const auto best = make_plan(problem, cluster::default_strategy());
  if (!best) return;
  size_t at = 0;
  const auto add = [&](double seconds) {
    RatioRow& row = rows[at++];
    if (seconds < cluster::kNever)
      row.ratios.push_back(seconds / best->objective_s);
    else
      ++row.refused;
  };
  for (const auto& strategy : cluster::partition_strategies()) {
    if (strategy.nodes == cluster::NodeChoice::kGiven) continue;
    if (&strategy == &cluster::default_strategy()) {
      add(best->objective_s);
      continue;
    }
    const auto planned = make_plan(problem, strategy);
    add(planned ? planned->objective_s : cluster::kNever);
  }
  for (const PeerRule& rule : peer_rules()) {
    const std::optional<Plan> plan = rule.split(problem);
    add(plan ? objective_seconds(problem, predict(problem, *plan)) : cluster::kNever);
  }
}

int run(size_t clusters, const std::string& plot_path) {
  const auto start = std::chrono::steady_clock::now();
  fmt::print("planner_corpus: {} clusters, seed {}, 3-8 nodes, Q4_0, context 2048, one stream in a step\n\n",
             clusters, kSeed);
  std::vector<RatioPanel> panels;
  for (const ShapeRow& shape : kShapes) {
    const auto list = runtime::plan_pieces(
        runtime::shape_file(*runtime::find_shape(shape.shape), DType::kQ4_0, DType::kQ6_K),
        {.context = 2048});
    uint64_t bytes = 0;
    for (const auto& piece : list.pieces) bytes += piece.memory_bytes();
    for (const Objective objective : {Objective::kLatency, Objective::kThroughput}) {
      RatioPanel panel{
          fmt::format("{}, {}", shape.words, objective == Objective::kLatency ? "one stream" : "throughput"),
          empty_rows()};
      for (size_t i = 0; i < clusters; ++i)
        add_cluster(Problem(list, corpus_cluster(kSeed, i, bytes), {.objective = objective}), panel.rows);
      for (RatioRow& row : panel.rows) std::sort(row.ratios.begin(), row.ratios.end());
      fmt::print(stderr, "{} done\n", panel.title);
      panels.push_back(std::move(panel));
    }
  }
  fmt::print("| Rule |");
  for (const RatioPanel& panel : panels) fmt::print(" {} |", panel.title);
  fmt::print("\n|---|");
  for (size_t i = 0; i < panels.size(); ++i) fmt::print("---|");
  for (size_t r = 0; r < panels[0].rows.size(); ++r) {
    fmt::print("\n| {} |", panels[0].rows[r].name);
    for (const RatioPanel& panel : panels) {
      const RatioRow& row = panel.rows[r];
      fmt::print(" {:.2f} / {:.2f}", quantile(row.ratios, 0.5), quantile(row.ratios, 0.95));
      if (row.refused > 0) fmt::print(" ({} do not fit)", row.refused);
      fmt::print(" |");
    }
  }
  fmt::print("\n\nmedian / 95th percentile of time over the optimum's\n");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  fmt::print(stderr, "{:.0f} s\n", took.count());
  if (!plot_path.empty())
    std::ofstream(plot_path) << ratio_plot(
        fmt::format("How far from the best split, on {} seeded clusters", clusters), panels);
  return 0;
}

}  // namespace
}  // namespace butterfly::bench

int main(int argc, char** argv) {
  const size_t clusters = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000;
  return butterfly::bench::run(std::max<size_t>(clusters, 1), argc > 2 ? argv[2] : "");
}
