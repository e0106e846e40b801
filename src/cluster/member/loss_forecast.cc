#include "cluster/member/loss_forecast.h"

#include <fmt/format.h>

namespace butterfly::cluster {

std::vector<LossForecast> forecast_losses(const PlanQuestion& question, const Placement& current,
                                          const PlanFunction& plan) {
  std::vector<LossForecast> out;
  for (const NodeId& node : current.nodes()) {
    LossForecast row;
    row.node = node;
    PlanQuestion rest = question;
    std::erase_if(rest.nodes, [&](const PlanNode& other) { return other.id == node; });
    const Result<Placement> placement =
        node == question.coordinator
            ? Result<Placement>(Errc::kPeerLost, "it is the coordinator: nothing is served without it")
            : plan(rest);
    row.fits = placement.ok();
    if (!placement.ok()) {
      row.words = placement.status().code() == Errc::kOutOfMemory
                      ? fmt::format("does not fit: {}", placement.status().text())
                      : placement.status().text();
    } else {
      row.tokens_per_s = placement->tokens_per_s;
      if (row.tokens_per_s > 0 && current.tokens_per_s > 0) {
        row.slower = current.tokens_per_s / row.tokens_per_s;
        row.words = row.slower > 1.01 ? fmt::format("still fits, {:.2f} times slower", row.slower)
                                      : "still fits, no slower";
      } else {
        row.words = "still fits";
      }
    }
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace butterfly::cluster
