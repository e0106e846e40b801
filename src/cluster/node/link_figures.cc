#include "cluster/node/link_figures.h"

#include <algorithm>

namespace butterfly::cluster {

double LinkFigures::message_s(double bytes) const {
  LinkPoint below{.bytes = 0, .seconds = rtt_s};
  for (const LinkPoint& above : points) {
    if (above.bytes >= bytes && above.bytes > below.bytes) {
      const double share = (bytes - below.bytes) / (above.bytes - below.bytes);
      // A larger message that was faster is chance.
      return below.seconds + share * std::max(0.0, above.seconds - below.seconds) - rtt_s / 2;
    }
    below = above;
  }
  return below.seconds + (bytes - below.bytes) / bandwidth - rtt_s / 2;
}

LinkSpec LinkFigures::spec_for(double bytes) const {
  const double whole = message_s(bytes);
  if (!(whole > 0) || !(bandwidth > 0)) return spec();
  const double rate = std::max(bandwidth, bytes / whole);
  return {.latency_s = std::max(0.0, whole - bytes / rate), .bandwidth = rate};
}

}  // namespace butterfly::cluster
