// Answers the coordinator's question who runs what, with the planner and the model's own graph.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cluster/balance/rebalance.h"
#include "cluster/member/placement.h"
#include "cluster/partition/partitioner.h"
#include "cluster/partition/plan_file.h"
#include "model/formats/model_file.h"
#include "runtime/chain/stage_settings.h"
#include "runtime/planning/group_choice.h"

namespace butterfly::runtime {

// The type of most of a model's weights: whose kernels decide how fast a node is.
DType main_type(const model::ModelFile& file);

struct PlacementOptions {
  const cluster::PartitionStrategy* strategy = nullptr;  // null: the default one
  cluster::Objective objective = cluster::Objective::kLatency;
  std::optional<cluster::WrittenPlan> written = {};  // followed to the letter; then `strategy` is not asked
  GroupChoice groups = {};  // nodes that may share each layer, by strategies that search; others have none
  StageSettings settings = {};
  uint64_t adapter_bytes = 0;  // what adapters take on a node, at most
  // Of links nobody has measured: gigabit Ethernet.
  cluster::LinkSpec unknown_link{.latency_s = 200e-6, .bandwidth = 117e6};
};

// The coordinator's node has the last stage and with it the head: logits do not travel. kOutOfMemory with
// figures when the model does not fit on these nodes, kNotFound when the coordinator's node, or one that a
// written plan names, is not among them.
Result<cluster::Placement> plan_placement(const model::ModelFile& file, const cluster::PlanQuestion& question,
                                          const PlacementOptions& options);

// What is remembered between two looks at the balance of one job.
struct PlacementBalance {
  std::vector<std::string> keys;  // of the nodes that the state is about
  cluster::BalanceState state;
};
struct BalanceAnswer {
  bool move = false;
  std::map<std::string, double> slowness;  // by key: what plans should take nodes for
  std::string reason;                      // in words, also when nothing moves
};
// Whether layers of what is served (`question.current`) should move, since nodes are slower than they were
// measured to be: `slowness` by key, of those that are known. Only for plans by the default strategy: others
// were asked for by name.
BalanceAnswer balance_placement(const model::ModelFile& file, const cluster::PlanQuestion& question,
                                const std::map<std::string, double>& slowness, double now_s,
                                const PlacementOptions& options, PlacementBalance& balance);

}  // namespace butterfly::runtime
