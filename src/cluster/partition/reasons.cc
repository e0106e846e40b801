#include "cluster/partition/reasons.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "cluster/cost/prediction.h"

namespace butterfly::cluster {
namespace {

constexpr size_t kLinesMax = 8;  // more are no explanation; the rest is counted

std::string ms(double seconds) { return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 0.01 ? 2 : 1); }

bool uses(const Plan& plan, size_t node) {
  return std::any_of(plan.stages.begin(), plan.stages.end(), [&](const Stage& stage) {
    return std::find(stage.nodes.begin(), stage.nodes.end(), node) != stage.nodes.end();
  });
}

// Seconds of an average piece.
double pace(const Problem& problem, size_t node) {
  return problem.units()[node].time_sum.back() / static_cast<double>(problem.pieces());
}

std::string room_for_nothing(const Problem& problem, size_t node) {
  uint64_t least = UINT64_MAX;
  for (size_t i = 0; i < problem.pieces(); ++i) least = std::min(least, problem.memory_bytes(i, i + 1));
  if (least <= problem.units()[node].memory_bytes) return {};
  return fmt::format("it has {}, {} {}", format_bytes(problem.units()[node].memory_bytes), kRoomForNothing,
                     format_bytes(least));
}

double cheapest_link(const Problem& problem, size_t node) {
  double least = kNever;
  for (size_t other = 0; other < problem.nodes() && problem.cut_classes() > 0; ++other)
    if (other != node) least = std::min(least, problem.hop(0, other, node).message_s);
  return least;
}

// Why one stream does not pass through this node.
std::string left_out_for_latency(const Problem& problem, const Plan& plan, size_t node, double latency_s,
                                 std::span<const double> with_s) {
  if (std::string why = room_for_nothing(problem, node); !why.empty()) return why;
  double slowest = 0;
  for (const Stage& stage : plan.stages)
    for (size_t used : stage.nodes) slowest = std::max(slowest, pace(problem, used));
  std::string cost;
  if (!with_s.empty() && with_s[node] < kUnwanted_s / 2)
    cost = fmt::format(" (with it {} per token instead of {})", ms(with_s[node]), ms(latency_s));
  if (pace(problem, node) >= slowest)
    return fmt::format("{} per piece, slower than every node used, and those have room for everything{}",
                       ms(pace(problem, node)), cost);
  return fmt::format("its link costs more ({} a hop) than its compute saves{}",
                     ms(cheapest_link(problem, node)), cost);
}

// Nodes with the same reason share a line: a room full of equal machines has one.
class Lines {
 public:
  void add(const std::string& name, std::string why) {
    auto it = std::find_if(lines_.begin(), lines_.end(), [&](const Line& line) { return line.why == why; });
    if (it == lines_.end()) it = lines_.insert(lines_.end(), {std::move(why), {}});
    it->names.push_back(name);
  }
  // "a, b and 3 more" + one or several + the reason.
  void append_to(std::vector<std::string>& reasons, const char* one, const char* several) const {
    for (size_t i = 0; i < std::min(lines_.size(), kLinesMax); ++i) {
      const std::vector<std::string>& names = lines_[i].names;
      const std::string who = names.size() <= 3
                                  ? fmt::format("{}", fmt::join(names, ", "))
                                  : fmt::format("{}, {} and {} more", names[0], names[1], names.size() - 2);
      reasons.push_back(fmt::format("{} {}: {}", who, names.size() == 1 ? one : several, lines_[i].why));
    }
    if (lines_.size() > kLinesMax)
      reasons.push_back(fmt::format("... {}, in {} more ways", several, lines_.size() - kLinesMax));
  }

 private:
  struct Line {
    std::string why;
    std::vector<std::string> names;
  };
  std::vector<Line> lines_;
};

template <typename Why>
void explain_left_out(const Problem& problem, const Plan& plan, std::vector<std::string>& reasons, Why why) {
  Lines lines;
  for (size_t node = 0; node < problem.nodes(); ++node)
    if (!uses(plan, node)) lines.add(problem.cluster().nodes[node].name, why(node));
  lines.append_to(reasons, "left out", "left out");
}

void explain_full(const Problem& problem, const Plan& plan, std::vector<std::string>& reasons) {
  Lines lines;
  for (const Stage& stage : plan.stages) {
    if (stage.end == problem.pieces() || stage.nodes.size() > 1) continue;
    if (problem.fits(stage.nodes[0], stage.begin, stage.end + 1)) continue;
    lines.add(problem.cluster().nodes[stage.nodes[0]].name,
              fmt::format("{} of {}", format_bytes(problem.memory_bytes(stage.begin, stage.end)),
                          format_bytes(problem.units()[stage.nodes[0]].memory_bytes)));
  }
  lines.append_to(reasons, "is full", "are full");
}

void explain_groups(const Problem& problem, const Plan& plan, std::vector<std::string>& reasons) {
  for (const Stage& stage : plan.stages) {
    if (stage.nodes.size() < 2) continue;
    std::string names;
    double fastest = kNever;
    for (size_t node : stage.nodes) {
      names += names.empty() ? "" : node == stage.nodes.back() ? " and " : ", ";
      names += problem.cluster().nodes[node].name;
      fastest = std::min(fastest, problem.units()[node].seconds(stage.begin, stage.end));
    }
    reasons.push_back(fmt::format("{} share every piece: {} together, {} on the fastest alone", names,
                                  ms(problem.unit_of(stage).seconds(stage.begin, stage.end)), ms(fastest)));
  }
}

}  // namespace

std::vector<std::string> explain_latency(const Problem& problem, const Plan& plan, double latency_s,
                                         std::span<const double> latency_with_s) {
  std::vector<std::string> reasons;
  if (plan.stages.size() == 1 && plan.stages[0].nodes.size() == 1 && problem.nodes() > 1)
    reasons.push_back(fmt::format(
        "not split: one stream passes through stages one after the other, and {} has room for everything",
        problem.cluster().nodes[plan.stages[0].nodes[0]].name));
  explain_groups(problem, plan, reasons);
  explain_full(problem, plan, reasons);
  explain_left_out(problem, plan, reasons, [&](size_t node) {
    return left_out_for_latency(problem, plan, node, latency_s, latency_with_s);
  });
  return reasons;
}

std::vector<std::string> explain_throughput(const Problem& problem, const Plan& plan,
                                            std::span<const double> latency_with_s) {
  const Prediction prediction = predict(problem, plan);
  std::vector<std::string> reasons;
  const double slowest = prediction.bottleneck_s;
  Lines pace;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const StagePrediction& stage = prediction.stages[i];
    const std::string& name = problem.cluster().nodes[plan.stages[i].nodes[0]].name;
    if (stage.seconds >= slowest * (1 - 1e-9))
      pace.add(name, ms(slowest) + " per step");
    else if (stage.hop_in.busy_s >= slowest * (1 - 1e-9))
      pace.add("the link to " + name, ms(slowest) + " per step");
  }
  pace.append_to(reasons, "sets the pace", "set the pace");
  explain_groups(problem, plan, reasons);
  explain_full(problem, plan, reasons);
  explain_left_out(problem, plan, reasons, [&](size_t node) -> std::string {
    if (std::string why = room_for_nothing(problem, node); !why.empty()) return why;
    double one_piece = kNever;
    for (size_t i = 0; i < problem.pieces(); ++i)
      one_piece = std::min(one_piece, problem.units()[node].seconds(i, i + 1));
    if (one_piece > slowest)
      return fmt::format("a single piece takes it {}, longer than the slowest stage", ms(one_piece));
    if (!latency_with_s.empty() && latency_with_s[node] < kUnwanted_s / 2 &&
        ms(latency_with_s[node]) != ms(prediction.latency_s))
      return fmt::format("the others are as fast without it, and a token takes {} instead of {}",
                         ms(prediction.latency_s), ms(latency_with_s[node]));
    return latency_with_s.empty() ? "no faster split with it was found" : "the others are as fast without it";
  });
  return reasons;
}

}  // namespace butterfly::cluster
