// The best plan: every subset of nodes, every order, every cut.
//
// 1. A good plan quickly: a search over orders, which is exact for each order it tries.
// 2. A bound for plans with each node: nodes that cannot be in a better plan are left out.
// 3. What is left is searched whole (subset_search.h) if it is small enough; the bound is then the optimum
// itself. If
//    not, the plan of step 1 stands, and the bound says how far it can be from the best.
// Throughput is the same question asked with a cap on stages and links: the least cap for which there is a
// plan.
#include <algorithm>
#include <numeric>

#include "base/units.h"
#include "cluster/partition/bounds.h"
#include "cluster/partition/order_search.h"
#include "cluster/partition/partitioner.h"
#include "cluster/partition/reasons.h"
#include "cluster/partition/subset_search.h"

namespace butterfly::cluster {
namespace {

constexpr size_t kOrderRounds = 1500;  // of changes for clusters too large to search whole

// Answers "least latency below a cap" for one problem, whole or by orders, and remembers how sure it is.
class CapSearch {
 public:
  explicit CapSearch(const Problem& problem) : problem_(problem) {
    for (size_t i = 0; i < problem.units().size(); ++i) units_.push_back(i);
    for (const Unit& unit : problem.units()) group_size_ = std::max(group_size_, unit.nodes.size());
    if (problem.nodes() <= kSubsetNodesMax) {
      subsets_.emplace(problem_, units_);
      return;
    }
    // What the other strategies find is a place to begin, so that none of them can be better.
    for (auto* partition : {partition_annealing, partition_balanced, partition_uniform})
      if (Result<Partition> other = partition(problem); other && why_not_fit(problem, other->plan).empty())
        others_.push_back(std::move(other->plan));
  }
  const std::vector<Plan>& others() const { return others_; }

  // Whether everything is searched. Groups that were not looked at may be better, though.
  bool whole() const { return subsets_.has_value(); }
  bool exact() const { return whole() && problem_.all_groups(); }
  const std::vector<size_t>& units() const { return units_; }

  struct Found {
    double latency_s = kNever;
    Plan plan;
    std::vector<double> latency_with_s;  // by node, if known
  };
  Found least_latency(double cap_s, size_t rounds) {
    if (whole()) {
      SubsetResult result = subsets_->run(cap_s);
      return {result.latency_s, std::move(result.plan), std::move(result.latency_with_s)};
    }
    const Candidate chain = by_orders(cap_s, rounds, 0);
    return {chain.latency_s, chain.latency_s < kNever ? chain.plan(problem_) : Plan{}, {}};
  }

  Candidate by_orders(double cap_s, size_t rounds, double enough_s) const {
    OrderSearchOptions options{.cap_s = cap_s,
                               .units = units_,
                               .orders = first_orders(cap_s),
                               .rounds = rounds,
                               .enough_s = enough_s,
                               .seed = problem_.options().seed};
    return search_orders(problem_, options);
  }

  // Units that no plan below `latency_s` can use are left out for good; true if few enough remain to search
  // whole.
  bool reduce(double latency_s, double& bound_s) {
    if (group_size_ > 1) return false;  // the bound knows no groups
    for (int round = 0; round < 3; ++round) {
      const LatencyBound bound = bound_latency(problem_, units_, kNever, true);
      bound_s = std::max(bound_s, bound.seconds);
      std::vector<size_t> kept;
      for (size_t i = 0; i < units_.size(); ++i)
        if (bound.with_s[i] <= latency_s) kept.push_back(units_[i]);
      const bool fewer = kept.size() < units_.size();
      if (!kept.empty()) units_ = std::move(kept);
      if (!fewer || units_.size() <= kSubsetNodesMax) break;
    }
    if (units_.size() <= kSubsetNodesMax) subsets_.emplace(problem_, units_);
    return whole();
  }

 private:
  // Groups of one size, the fastest first, then of the next smaller, and the nodes that are left: each as a
  // walk from neighbour to neighbour, and by speed.
  void add_group_orders(std::vector<std::vector<size_t>>& orders) const {
    std::vector<size_t> by_speed = units_;
    const auto unit = [&](size_t i) -> const Unit& { return problem_.units()[i]; };
    std::stable_sort(by_speed.begin(), by_speed.end(),
                     [&](size_t a, size_t b) { return unit(a).time_sum.back() < unit(b).time_sum.back(); });
    for (size_t most = 2; most <= group_size_; ++most) {
      std::vector<size_t> order;
      for (size_t size = most; size > 0; --size)
        for (size_t candidate : by_speed)
          if (unit(candidate).nodes.size() == size &&
              std::none_of(order.begin(), order.end(),
                           [&](size_t other) { return overlap(unit(candidate), unit(other)); }))
            order.push_back(candidate);
      orders.push_back(order);
      orders.push_back(walk(std::move(order)));
    }
  }

  // From the coordinator to whoever is next, and so on.
  std::vector<size_t> walk(std::vector<size_t> left) const {
    std::vector<size_t> out;
    const auto nearest = [&](auto cost) {
      const auto it =
          std::min_element(left.begin(), left.end(), [&](size_t a, size_t b) { return cost(a) < cost(b); });
      out.push_back(*it);
      left.erase(it);
    };
    nearest([&](size_t u) { return problem_.entry(u).message_s; });
    while (!left.empty())
      nearest([&](size_t u) {
        return problem_.cut_classes() == 0 ? 0.0 : problem_.hop(0, out.back(), u).message_s;
      });
    return out;
  }

  // By speed, as given, as the relaxed optimum has them, and that one as a walk from neighbour to neighbour.
  std::vector<std::vector<size_t>> first_orders(double cap_s) const {
    std::vector<size_t> nodes;
    for (size_t unit : units_)
      if (problem_.units()[unit].nodes.size() == 1) nodes.push_back(unit);
    std::vector<std::vector<size_t>> orders = {nodes, nodes};
    std::stable_sort(orders[0].begin(), orders[0].end(), [&](size_t a, size_t b) {
      return problem_.units()[a].time_sum.back() < problem_.units()[b].time_sum.back();
    });
    add_group_orders(orders);
    for (const Plan& plan : others_) {
      std::vector<size_t>& order = orders.emplace_back();
      for (const Stage& stage : plan.stages) order.push_back(stage.nodes[0]);
    }
    const LatencyBound bound = bound_latency(problem_, nodes, cap_s, false);
    if (bound.chosen.empty()) return orders;
    const auto with_others = [&](std::vector<size_t> order) {
      for (size_t unit : orders[0])
        if (std::find(order.begin(), order.end(), unit) == order.end()) order.push_back(unit);
      return order;
    };
    orders.push_back(with_others(bound.chosen));
    orders.push_back(with_others(walk(bound.chosen)));
    return orders;
  }

  const Problem& problem_;
  std::vector<size_t> units_;
  size_t group_size_ = 1;  // of the largest
  std::optional<SubsetSearch> subsets_;
  std::vector<Plan> others_;
};

Status no_room(const Problem& problem) {
  uint64_t room = 0, largest = 0;
  for (const NodeSpec& node : problem.cluster().nodes) room += node.ram_bytes;
  for (size_t i = 0; i < problem.pieces(); ++i) largest = std::max(largest, problem.memory_bytes(i, i + 1));
  return {Errc::kOutOfMemory,
          fmt::format("{} of weights and cache do not fit into {} on {} node{}, in pieces of up to {}",
                      format_bytes(problem.memory_bytes(0, problem.pieces())), format_bytes(room),
                      problem.nodes(), problem.nodes() == 1 ? "" : "s", format_bytes(largest))};
}

Result<Partition> least_latency(const Problem& problem, CapSearch& search) {
  Partition out;
  double bound_s = 0;
  CapSearch::Found found;
  if (!search.whole()) {
    found = search.least_latency(kNever, kOrderRounds);
    if (!(found.latency_s < kNever)) return no_room(problem);
    search.reduce(found.latency_s, bound_s);
  }
  if (search.whole()) {
    CapSearch::Found whole = search.least_latency(kNever, 0);
    if (!(whole.latency_s < kNever)) return no_room(problem);
    found = std::move(whole);
    bound_s = search.exact() ? found.latency_s : sharing_bound(problem);
  } else if (bound_s == 0) {
    bound_s = sharing_bound(problem);
  }
  out.lower_bound_s = bound_s;
  if (found.latency_s > kUnwanted_s / 2) {
    // What searches add for small stages is no time of a token.
    found.latency_s = predict(problem, found.plan).latency_s;
    out.lower_bound_s = search.exact() ? found.latency_s : sharing_bound(problem);
  }
  out.reasons = explain_latency(problem, found.plan, found.latency_s, found.latency_with_s);
  out.plan = std::move(found.plan);
  return out;
}

// The least cap (of `caps`, ascending) whose least latency satisfies `good`; good() must turn true once and
// stay so.
template <typename Good>
std::pair<size_t, CapSearch::Found> least_cap(CapSearch& search, const std::vector<double>& caps, Good good) {
  size_t low = 0, high = caps.size();
  CapSearch::Found best;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    CapSearch::Found found = search.least_latency(caps[middle], 0);
    if (good(found.latency_s, caps[middle])) {
      best = std::move(found);
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return {high, std::move(best)};
}

Result<Partition> most_throughput(const Problem& problem, CapSearch& search) {
  const PlanOptions& options = problem.options();
  const double limit_s = options.latency_limit_s * (1 + 1e-9);
  // Where the relaxation already fails, nothing succeeds (groups are beyond it).
  const bool singles = problem.units().size() == problem.nodes();
  const std::vector<double> all = cap_candidates(problem, search.units(), 0, kNever);
  auto from = all.begin();
  if (singles)
    from = std::partition_point(all.begin(), all.end(),
                                [&](double cap) { return !may_reach_cap(problem, search.units(), cap); });
  const std::vector<double> caps(from, all.end());
  const double relaxed_s = caps.empty() ? kNever : caps.front();

  const auto in_flight = static_cast<double>(options.batches_in_flight);
  auto [at, least] = least_cap(search, caps, [&](double latency_s, double cap_s) {
    return latency_s <= (in_flight > 0 ? std::min(limit_s, in_flight * cap_s) : limit_s) &&
           latency_s < kNever;
  });
  CapSearch::Found found = std::move(least);
  double value = kNever;
  if (at < caps.size()) value = in_flight > 0 ? std::max(in_flight * caps[at], found.latency_s) : caps[at];
  // With few batches on their way latency can rule: one cap lower, all of it is latency.
  if (in_flight > 0) {
    const auto try_cap = [&](double cap_s) {
      CapSearch::Found other = search.least_latency(cap_s, 0);
      if (!(other.latency_s < kNever) || other.latency_s > limit_s) return;
      const double seconds = objective_seconds(problem, predict(problem, other.plan));
      if (seconds < value * (1 - 1e-9)) value = seconds, found = std::move(other);
    };
    if (at > 0) try_cap(caps[at - 1]);
    if (!(value < kNever)) try_cap(kNever);
  }
  for (const Plan& plan : search.others()) {
    const Prediction prediction = predict(problem, plan);
    if (objective_seconds(problem, prediction) < value * (1 - 1e-9))
      value = objective_seconds(problem, prediction), found = {prediction.latency_s, plan, {}};
  }
  if (!(found.latency_s < kNever)) {
    const CapSearch::Found any = search.least_latency(kNever, 0);
    if (!(any.latency_s < kNever)) return no_room(problem);
    return {Errc::kNotFound, fmt::format("no plan takes {:.2f} ms per token or less, the least is {:.2f} ms",
                                         options.latency_limit_s * 1e3, any.latency_s * 1e3)};
  }
  Partition out;
  if (search.exact()) {
    out.lower_bound_s = value;
  } else if (search.whole()) {
    out.lower_bound_s = sharing_bound(problem);
  } else {
    // The same slowest stage with less latency, then the bound.
    const double cap_s = predict(problem, found.plan).bottleneck_s;
    CapSearch::Found better = search.least_latency(cap_s, kOrderRounds);
    if (better.latency_s < found.latency_s) found = std::move(better);
    out.lower_bound_s = !singles ? sharing_bound(problem) : in_flight > 0 ? lower_bound(problem) : relaxed_s;
  }
  out.reasons = explain_throughput(problem, found.plan, found.latency_with_s);
  out.plan = std::move(found.plan);
  return out;
}

}  // namespace

Result<Partition> partition_optimal(const Problem& problem) {
  CapSearch search(problem);
  return problem.options().objective == Objective::kLatency ? least_latency(problem, search)
                                                            : most_throughput(problem, search);
}

}  // namespace butterfly::cluster
