// How other tools split a model, written anew from their descriptions, to see what their rules cost. Each
// gets the true memory and speed figures, and the same contiguous stages; where a tool cannot use the head's
// own CPU, here it can.
#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "cluster/cost/problem.h"

namespace butterfly::bench {

struct PeerRule {
  std::string_view name;
  std::string_view words;
  // Nothing: the rule finds no split that fits.
  std::optional<cluster::Plan> (*split)(const cluster::Problem& problem);
};
std::span<const PeerRule> peer_rules();

}  // namespace butterfly::bench
