// A planning question as numbers: seconds of every run of pieces on every node, seconds of every hop, bytes
// that fit.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "cluster/cost/group.h"
#include "cluster/cost/piece.h"
#include "cluster/cost/plan.h"
#include "cluster/node/cluster_spec.h"

namespace butterfly::cluster {

inline constexpr double kNever = std::numeric_limits<double>::infinity();
// Seconds that searches add for what is not wanted. Above half of it no figure is a time.
inline constexpr double kUnwanted_s = 100;

enum class Objective {
  kLatency,     // seconds per token of one stream: all stages and hops, and the way back to the coordinator
  kThroughput,  // seconds between two steps of a full pipeline: the slowest stage or link
};

struct PlanOptions {
  Objective objective = Objective::kLatency;
  // With kThroughput: the best among plans whose latency stays below this.
  double latency_limit_s = kNever;
  // With kThroughput: batches on their way at once. G of them come round in max(G x slowest, latency)
  // seconds. 0: as many as the pipeline needs to be full.
  size_t batches_in_flight = 0;
  // How much of a prompt's time a token bears: 1 / tokens generated per prompt; 0: plan for generation alone.
  double prefill_weight = 0;
  // Nodes of a tensor-parallel group at most; 1: no groups.
  size_t group_size_max = 1;
  // Stages of fewer nodes are a last resort, whatever they would gain. 1: the fastest plan.
  size_t group_size_wanted = 1;
  // A node that only the last stage may use, and that is the first of its members: who draws the tokens.
  std::optional<size_t> last_node = {};
  uint64_t seed = 1;                 // of strategies that draw
  size_t annealing_steps = 240'000;  // about 40 ms
  Plan custom = {};                  // of the strategy `custom`
};

// Something a stage can run on: a node, or a group of nodes that share every piece.
struct Unit {
  std::vector<size_t> nodes;
  std::vector<double> shares;    // of the work, in whole units of the pieces; sum 1
  GroupWire wire;                // between the members
  uint64_t memory_bytes = 0;     // of the stage that fits: for groups, until the first member is full
  std::vector<double> time_sum;  // [pieces + 1]: seconds of pieces [0, i)
  double seconds(size_t begin, size_t end) const { return time_sum[end] - time_sum[begin]; }
};

// Immutable. Cuts are numbered by the piece behind them: cut i lies between piece i - 1 and piece i.
class Problem {
 public:
  // Throws Error kInvalidArgument for a cluster that check() refuses, or an empty list of pieces.
  Problem(PieceList list, ClusterSpec cluster, PlanOptions options);

  const PieceList& list() const { return list_; }
  const ClusterSpec& cluster() const { return cluster_; }
  const PlanOptions& options() const { return options_; }
  size_t pieces() const { return list_.pieces.size(); }
  size_t nodes() const { return cluster_.size(); }

  // The nodes in order, then the groups worth a look: those that are faster than each member that has as much
  // room. Groups overlap, and one group may be there with several shares.
  std::span<const Unit> units() const { return units_; }

  uint64_t memory_bytes(size_t begin, size_t end) const { return memory_sum_[end] - memory_sum_[begin]; }
  // Of a member with this share of pieces [begin, end).
  uint64_t member_bytes(double share, size_t begin, size_t end) const;
  bool fits(const Unit& unit, size_t begin, size_t end) const;
  bool fits(size_t unit, size_t begin, size_t end) const { return fits(units_[unit], begin, end); }

  // Seconds of the activations on their way, and seconds they keep the link busy.
  struct Hop {
    double message_s = 0;
    double busy_s = 0;
    friend Hop operator+(const Hop& a, const Hop& b) {
      return {a.message_s + b.message_s, a.busy_s + b.busy_s};
    }
  };
  // Cuts with the same bytes have the same class, and hops of one class cost the same.
  size_t cut_class(size_t cut) const { return cut_class_[cut]; }
  size_t cut_classes() const { return hops_.size(); }
  const Hop& hop(size_t cut_class, size_t from, size_t to) const {
    return hops_[cut_class][from * units_.size() + to];
  }
  const Hop& hop_at(size_t cut, size_t from, size_t to) const { return hop(cut_class_[cut], from, to); }
  const Hop& entry(size_t unit) const { return entry_[unit]; }  // coordinator -> first stage
  const Hop& exit(size_t unit) const { return exit_[unit]; }    // last stage -> coordinator

  // The unit of a stage: a node's own, or made on the spot from its nodes and shares; without shares the
  // fastest that fit its pieces, or the fastest where none do. For plans from outside.
  Unit unit_of(const Stage& stage) const;
  // The ways in which these nodes can share pieces, fastest first; of one node its own unit.
  std::vector<Unit> ways_of(std::span<const size_t> nodes) const;
  bool has_last_node(std::span<const size_t> nodes) const;
  // Whether every group of up to the allowed size is among units(): a search of them all is then exact.
  bool all_groups() const { return all_groups_; }
  Hop hop_between(std::span<const size_t> from, std::span<const size_t> to, double decode_bytes,
                  double prefill_bytes) const;

 private:
  void add_groups();
  GroupWork group_work() const;
  // Sets of nodes: all of a small cluster, covers by groups of each size of a large one.
  std::vector<std::vector<size_t>> group_candidates(size_t most, const GroupWork& work);
  Unit make_unit(std::span<const size_t> nodes, std::vector<double> shares) const;
  double piece_seconds(size_t piece, const Unit& unit) const;
  Hop unwanted(const Unit& to) const;

  PieceList list_;
  ClusterSpec cluster_;
  PlanOptions options_;
  std::vector<Unit> units_;
  bool all_groups_ = true;
  std::vector<uint64_t> memory_sum_, whole_sum_;
  std::vector<size_t> cut_class_;  // [pieces + 1]; 0 and pieces are not cuts
  std::vector<std::vector<Hop>> hops_;
  std::vector<Hop> entry_, exit_;
};

}  // namespace butterfly::cluster
