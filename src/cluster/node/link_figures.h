// What a link between two nodes carries: round trip and bandwidth, by size of message.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cluster/node/cluster_spec.h"

namespace butterfly::cluster {

inline constexpr size_t kLinkPointsMax = 32;  // of one link

struct LinkPoint {
  uint32_t bytes = 0;  // of a message
  double seconds = 0;  // there and back with an empty answer: the best of several
};

struct LinkFigures {
  double rtt_s = 0;      // of an empty message
  double bandwidth = 0;  // bytes/s of large messages, one direction
  std::vector<LinkPoint> points = {};

  // Seconds from send() to recv() of a message of so many bytes, between the sizes that were measured.
  double message_s(double bytes) const;

  // As the planner sees it: half a round trip, and the bandwidth.
  LinkSpec spec() const { return {.latency_s = rtt_s / 2, .bandwidth = bandwidth}; }

  // The same, such that messages of `bytes` take what they took. Small ones do not lie on the line of the
  // large: TCP's first windows, interrupts of the device and what a shaper lets pass at once are in them, and
  // the rows of one token are small.
  LinkSpec spec_for(double bytes) const;
};

}  // namespace butterfly::cluster
