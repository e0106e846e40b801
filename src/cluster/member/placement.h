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
#include "cluster/member/share.h"
#include "cluster/node/capabilities.h"
#include "cluster/node/link_figures.h"

namespace butterfly::cluster {

inline constexpr size_t kMembersMax = 32;  // of a stage

// One node's part of a stage.
struct StageMember {
  NodeId node = {};
  Share share = {};           // of every piece of the stage
  uint64_t memory_bytes = 0;  // weights and cache
  double predicted_s = 0;     // of one decode step; 0: not known
};

// Pieces [begin, end) of the chain. Mostly on one node, which has all of them; several share each piece.
struct StagePlacement {
  // Together they have everything once. The first one has the links from and to other stages.
  std::vector<StageMember> members = {};
  uint32_t begin = 0;
  uint32_t end = 0;
  // How long the stage may work without progress before it counts as stalled; at least the time of its
  // longest unit of work. Zero: the coordinator's own bound.
  Duration stall_after{};

  const NodeId& first() const { return members.front().node; }
  const StageMember* find(const NodeId& node) const;
  bool same_work(const StagePlacement& other) const;
};

struct Placement {
  std::vector<StagePlacement> stages = {};  // in the order of the chain
  uint32_t pieces = 0;                      // of the whole chain
  // Predicted, of what the plan was made for: of one stream, or of all together. 0: not known.
  double tokens_per_s = 0;
  // The same of PlanQuestion::current, by the figures that this plan was made with. 0: not known.
  double current_tokens_per_s = 0;
  bool asked_for = false;  // replaces what is served, whatever it gains
  std::string words = {};  // why it is so, for people

  const StagePlacement* find(const NodeId& node) const;      // the stage it has a part of
  const StageMember* find_member(const NodeId& node) const;  // and the part
  std::vector<NodeId> nodes() const;                         // all members of all stages, in order
  bool same_work(const Placement& other) const;
};

// Empty, or in words why the stages do not cover [0, pieces) once and in order, or the members of one its
// pieces, each on a node of its own.
std::string why_not_whole(const Placement& placement);

// Whether `a` talks to `b` in this chain: of the same stage, the first ones of stages next to each other, or
// the coordinator with anybody. `b` without a key: with somebody.
bool are_neighbours(const Placement& placement, const NodeId& coordinator, const NodeId& a, const NodeId& b);

// The ways between `a` and `b` in this chain, each as (from, to): steps go round from stage to stage, members
// of one stage send to each other. Just (a, b) where there is none.
std::vector<std::pair<NodeId, NodeId>> ways_between(const Placement& placement, const NodeId& a,
                                                    const NodeId& b);

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
  uint64_t ram_free_bytes =
      0;                 // for weights and cache of this job, as the node says now; others' are taken off
  double slowness = 1;   // everything takes so many times as long as its capabilities say
  double held_up_s = 0;  // what comes to its process waits so long until that runs
};

// Asked for when members come or go. Figures of links that nobody measured are not in `links`.
struct PlanQuestion {
  JobId job = 0;
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
