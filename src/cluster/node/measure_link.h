// Measures a link: round trips of messages of growing size. One side asks, the other answers; both know from
// the link's hello what it is for.
#pragma once
#include "base/clock.h"
#include "base/result.h"
#include "cluster/node/link_figures.h"
#include "cluster/transport/link.h"

namespace butterfly::cluster {

struct LinkMeasureOptions {
  uint32_t bytes_max = 1 << 20;  // of a message; at most kMeasureBytesMax
  int repeats = 5;               // of each size: the best counts
  // Sizes stop growing when a message takes a quarter of this; all ends after this.
  Duration budget = std::chrono::seconds(2);
};
inline constexpr uint32_t kMeasureBytesMax = 4 << 20;
inline constexpr uint64_t kMeasureMessagesMax = 1000;

// Leaves the link open and idle, or broken with the error.
Result<LinkFigures> measure_link(Link& link, const Clock& clock, const LinkMeasureOptions& options = {});

// Answers until the other side closes, which is ok; kCorrupt, link closed, for messages of any other kind or
// size; kTimeout when nothing came for `patience` or more than kMeasureMessagesMax messages did.
Status answer_measurement(Link& link, Duration patience = std::chrono::seconds(5));

}  // namespace butterfly::cluster
