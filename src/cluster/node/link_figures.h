// What a link between two nodes carries: round trip and bandwidth, by size of message.
#pragma once
#include <cstdint>
#include <vector>

#include "cluster/node/cluster_spec.h"

namespace butterfly::cluster {

struct LinkPoint {
  uint32_t bytes = 0;  // of a message
  double seconds = 0;  // there and back with an empty answer: the best of several
};

struct LinkFigures {
  double rtt_s = 0;      // of an empty message
  double bandwidth = 0;  // bytes/s of large messages, one direction
  std::vector<LinkPoint> points = {};

  // As the planner sees it: half a round trip, and the bandwidth.
  LinkSpec spec() const { return {.latency_s = rtt_s / 2, .bandwidth = bandwidth}; }
};

}  // namespace butterfly::cluster
