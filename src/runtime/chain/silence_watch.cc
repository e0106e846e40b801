#include "runtime/chain/silence_watch.h"

#include <fmt/format.h>

#include "base/units.h"

namespace butterfly::runtime {
namespace {

constexpr int kBeatsWithin = 8;  // the limit: some may be late

}  // namespace

std::optional<SilenceWatch::Cut> SilenceWatch::look(std::span<cluster::Link* const> to,
                                                    std::span<cluster::Link* const> from, Duration limit,
                                                    TimePoint now) {
  if (!looked_at_ || now - *looked_at_ > limit / 2) judges_from_ = now + limit;
  looked_at_ = now;
  for (cluster::Link* link : to) {
    if (link == nullptr) continue;
    if (link->unacknowledged() >= limit)
      return Cut{link->peer(),
                 fmt::format("its machine has acknowledged nothing for {}", format_duration(limit))};
    link->beat(limit / kBeatsWithin);
  }
  if (now < judges_from_) return std::nullopt;
  for (cluster::Link* link : from)
    if (link != nullptr && link->silent() >= limit)
      return Cut{link->peer(),
                 fmt::format("nothing has come from it for {}, or next to nothing", format_duration(limit))};
  return std::nullopt;
}

}  // namespace butterfly::runtime
