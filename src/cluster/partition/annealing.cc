// Random changes to a plan, accepted by Metropolis' rule while the temperature falls. Every change keeps
// stages contiguous: shift a cut, swap two nodes, drop a node, bring one in. Links count through the
// objective.
#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "cluster/partition/partitioner.h"

namespace butterfly::cluster {
namespace {

// Units in order and the ends of their stages.
struct State {
  std::vector<uint32_t> nodes;
  std::vector<uint32_t> ends;
  uint32_t begin(size_t i) const { return i == 0 ? 0 : ends[i - 1]; }
};

class Annealer {
 public:
  explicit Annealer(const Problem& problem) : problem_(problem) {}

  // Seconds, with a penalty that grows with what does not fit, so that the way leads back to plans that do.
  double energy(const State& s) const {
    double latency = 0, slowest = 0, excess = 0;
    for (size_t i = 0; i < s.nodes.size(); ++i) {
      const uint32_t node = s.nodes[i], begin = s.begin(i), end = s.ends[i];
      const Problem::Hop& in = i == 0 ? problem_.entry(node) : problem_.hop_at(begin, s.nodes[i - 1], node);
      const double seconds = problem_.units()[node].seconds(begin, end);
      latency += in.message_s + seconds;
      slowest = std::max({slowest, in.busy_s, seconds});
      const auto need = static_cast<double>(problem_.memory_bytes(begin, end));
      const auto room = static_cast<double>(problem_.units()[node].memory_bytes);
      if (need > room)
        excess += (need - room) / static_cast<double>(problem_.memory_bytes(0, problem_.pieces()));
    }
    const Problem::Hop& out = problem_.exit(s.nodes.back());
    latency += out.message_s;
    slowest = std::max(slowest, out.busy_s);
    const PlanOptions& options = problem_.options();
    double seconds = latency;
    if (options.objective == Objective::kThroughput) {
      const auto in_flight = static_cast<double>(options.batches_in_flight);
      // A little of the latency breaks ties between plans with the same slowest stage.
      seconds =
          in_flight > 0 ? std::max(in_flight * slowest, latency) : slowest * (1 + 1e-6) + latency * 1e-6;
      if (latency > options.latency_limit_s) seconds += 10 * (latency - options.latency_limit_s);
    }
    return seconds + excess * 10 * latency + (excess > 0 ? latency : 0);
  }

  bool fits(const State& s) const {
    for (size_t i = 0; i < s.nodes.size(); ++i)
      if (!problem_.fits(s.nodes[i], s.begin(i), s.ends[i])) return false;
    return true;
  }

  // Equal counts over all nodes, and everything on the fastest one.
  State start(bool spread) const {
    const size_t pieces = problem_.pieces(), nodes = spread ? std::min(problem_.nodes(), pieces) : 1;
    State s;
    for (size_t i = 0; i < nodes; ++i) {
      s.nodes.push_back(static_cast<uint32_t>(i));
      s.ends.push_back(static_cast<uint32_t>((i + 1) * pieces / nodes));
    }
    if (!spread)
      for (uint32_t i = 0; i < problem_.nodes(); ++i)
        if (problem_.units()[i].time_sum.back() < problem_.units()[s.nodes[0]].time_sum.back())
          s.nodes[0] = i;
    return s;
  }

  State run(State s, uint64_t stream, size_t steps) {
    stream_ = stream;
    draws_ = 0;
    double now = energy(s);
    State best = s;
    double best_energy = now;
    const double hot = 0.2 * now, cold = 1e-5 * now;
    State next;
    for (size_t step = 0; step < steps; ++step) {
      const double t = hot * std::pow(cold / hot, static_cast<double>(step) / static_cast<double>(steps));
      next = s;
      if (!change(next)) continue;
      const double then = energy(next);
      if (then <= now || std::exp((now - then) / t) > uniform()) {
        std::swap(s, next);
        now = then;
        if (now < best_energy) best = s, best_energy = now;
      }
    }
    return best;
  }

 private:
  uint64_t draw() { return random_u64(problem_.options().seed, stream_, draws_++); }
  size_t below(size_t n) { return static_cast<size_t>(draw() % n); }
  double uniform() { return static_cast<double>(draw() >> 11) * 0x1p-53; }

  bool change(State& s) {
    const size_t stages = s.nodes.size();
    switch (below(5)) {
      case 0:
      case 1: {  // shift a cut
        if (stages < 2) return false;
        const size_t cut = below(stages - 1);
        const uint32_t low = s.begin(cut) + 1, high = s.ends[cut + 1] - 1;
        if (low >= high) return false;
        const size_t reach = below(2) == 0 ? 1 : 1 + below(8);
        const uint32_t to = below(2) == 0
                                ? s.ends[cut] + static_cast<uint32_t>(reach)
                                : s.ends[cut] - static_cast<uint32_t>(std::min<size_t>(reach, s.ends[cut]));
        s.ends[cut] = std::clamp(to, low, high);
        return true;
      }
      case 2: {  // swap a stage's node with another, used or not
        const size_t i = below(stages);
        const auto other = static_cast<uint32_t>(below(problem_.nodes()));
        const auto it = std::find(s.nodes.begin(), s.nodes.end(), other);
        if (it == s.nodes.end())
          s.nodes[i] = other;
        else
          std::swap(*it, s.nodes[i]);
        return true;
      }
      case 3: {  // drop a node: its neighbour takes over
        if (stages < 2) return false;
        const size_t i = below(stages);
        if (i + 1 == stages || (i > 0 && below(2) == 0)) s.ends[i - 1] = s.ends[i];
        s.nodes.erase(s.nodes.begin() + static_cast<ptrdiff_t>(i));
        s.ends.erase(s.ends.begin() + static_cast<ptrdiff_t>(i));
        return true;
      }
      default: {  // bring a node in: it takes a part of a stage
        if (stages >= problem_.nodes()) return false;
        const auto node = static_cast<uint32_t>(below(problem_.nodes()));
        if (std::find(s.nodes.begin(), s.nodes.end(), node) != s.nodes.end()) return false;
        const size_t i = below(stages);
        const uint32_t length = s.ends[i] - s.begin(i);
        if (length < 2) return false;
        const auto cut = s.begin(i) + 1 + static_cast<uint32_t>(below(length - 1));
        s.nodes.insert(s.nodes.begin() + static_cast<ptrdiff_t>(i + below(2)), node);
        s.ends.insert(s.ends.begin() + static_cast<ptrdiff_t>(i), cut);
        return true;
      }
    }
  }

  const Problem& problem_;
  uint64_t stream_ = 0, draws_ = 0;
};

}  // namespace

std::string annealing_why_not(const Problem& problem) {
  return problem.options().group_size_wanted > 1 ? "it makes stages of one node each" : "";
}

Result<Partition> partition_annealing(const Problem& problem) {
  Annealer annealer(problem);
  State best;
  double best_energy = kNever;
  for (bool spread : {true, false}) {
    State found = annealer.run(annealer.start(spread), spread, problem.options().annealing_steps / 2);
    const double energy = annealer.fits(found) ? annealer.energy(found) : kNever;
    if (energy < best_energy) best = std::move(found), best_energy = energy;
  }
  if (best.nodes.empty())
    return {Errc::kOutOfMemory,
            fmt::format("found no split that fits in {} steps", problem.options().annealing_steps)};
  Partition out;
  for (size_t i = 0; i < best.nodes.size(); ++i)
    out.plan.stages.push_back({{best.nodes[i]}, best.begin(i), best.ends[i], {1.0}});
  return out;
}

}  // namespace butterfly::cluster
