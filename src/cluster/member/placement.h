// Who runs which pieces, and the question it answers. Members are known by their keys; no models here.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/identity/node_id.h"
#include "cluster/member/epoch.h"
#include "cluster/node/capabilities.h"
#include "cluster/node/link_figures.h"

namespace butterfly::cluster {

// Pieces [begin, end) of the chain, on one node.
struct StagePlacement {
  NodeId node = {};
  uint32_t begin = 0;
  uint32_t end = 0;
  uint64_t memory_bytes = 0;  // weights and cache
  double predicted_s = 0;     // of one decode step; 0: not known
  // How long the stage may work without progress before it counts as stalled; at least the time of its
  // longest unit of work. Zero: the coordinator's own bound.
  Duration stall_after{};

  bool same_work(const StagePlacement& other) const {
    return node == other.node && begin == other.begin && end == other.end;
  }
};

struct Placement {
  std::vector<StagePlacement> stages = {};  // in the order of the chain
  uint32_t pieces = 0;                      // of the whole chain
  // Predicted, of what the plan was made for: of one stream, or of all together. 0: not known.
  double tokens_per_s = 0;
  // The same of PlanQuestion::current, by the figures that this plan was made with. 0: not known.
  double current_tokens_per_s = 0;
  std::string words = {};  // why it is so, for people

  const StagePlacement* find(const NodeId& node) const {
    for (const StagePlacement& stage : stages)
      if (stage.node == node) return &stage;
    return nullptr;
  }
  bool same_work(const Placement& other) const;
};

// Empty, or in words why the stages do not cover [0, pieces) once and in order on different nodes.
std::string why_not_whole(const Placement& placement);

// What runs over the cluster. Opaque to membership but for its name.
struct ModelTask {
  std::string id = {};        // content hash of the model, or what else names its bytes
  std::string name = {};      // for people
  std::string settings = {};  // how a stage runs it (cache, batch, wire): written and read by runtime
  bool operator==(const ModelTask&) const = default;
};

struct PlanNode {
  NodeId id = {};
  Capabilities capabilities = {};
  uint64_t ram_free_bytes = 0;  // for weights and cache, as the node says now
};

// Asked for when members come or go. Figures of links that nobody measured are not in `links`.
struct PlanQuestion {
  Epoch epoch = 0;
  ModelTask model = {};
  NodeId coordinator = {};
  std::vector<PlanNode> nodes = {};
  std::map<std::pair<std::string, std::string>, LinkFigures> links = {};  // by keys (from, to)
  std::vector<std::pair<std::string, std::string>> broken = {};  // `from` cannot reach `to`: never neighbours
  std::optional<Placement> current = {};                         // what is served, to compare with
};

// kOutOfMemory, in words with figures, when the model does not fit on these nodes. May take long, but has an
// end; holds no locks of the caller.
using PlanFunction = std::function<Result<Placement>(const PlanQuestion&)>;

}  // namespace butterfly::cluster
