#include "cluster/node/measure_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "cluster/transport/message.h"

namespace butterfly::cluster {
namespace {

// One message there, an empty one back.
Result<double> round_trip(Link& link, const Clock& clock, uint64_t number, std::span<const std::byte> body,
                          const Deadline& deadline) {
  const TimePoint start = clock.now();
  if (Status sent =
          send_message(link, {.kind = MessageKind::kControl, .step = number}, body, deadline.remaining());
      !sent.ok())
    return sent;
  const Result<MessageHead> answer = link.receive_head(deadline.remaining());
  if (!answer.ok()) return answer.status();
  if (answer->bytes != 0 || answer->step != number || answer->kind != MessageKind::kControl) {
    link.close();
    return {Errc::kCorrupt, "[measure link] the answer does not belong to the question"};
  }
  if (Status taken = link.receive_body({}, deadline.remaining()); !taken.ok()) return taken;
  return seconds_of(clock.now() - start);
}

// From the two largest sizes, so that what every message costs falls out.
double bandwidth_of(const std::vector<LinkPoint>& points, double rtt_s) {
  const LinkPoint& large = points.back();
  double best = large.bytes / std::max(large.seconds - rtt_s / 2, 1e-9);
  if (points.size() >= 2) {
    const LinkPoint& small = points[points.size() - 2];
    const double more_s = large.seconds - small.seconds;
    if (more_s > large.seconds / 10) best = (large.bytes - small.bytes) / more_s;
  }
  return best;
}

}  // namespace

Result<LinkFigures> measure_link(Link& link, const Clock& clock, const LinkMeasureOptions& options) {
  BF_CHECK(options.bytes_max > 0 && options.bytes_max <= kMeasureBytesMax && options.repeats > 0);
  const std::vector<std::byte> body(options.bytes_max);
  // Twice the budget, for a last message that is much slower than the one before.
  const Deadline end(clock, 2 * options.budget);
  const TimePoint start = clock.now();
  LinkFigures figures;
  uint64_t number = 0;
  for (uint32_t bytes = 0; bytes <= options.bytes_max; bytes = bytes == 0 ? 1024 : bytes * 4) {
    std::optional<double> best;
    for (int i = 0; i < options.repeats; ++i) {
      const Result<double> took = round_trip(link, clock, ++number, std::span(body).first(bytes), end);
      if (!took.ok()) return took.status();
      best = std::min(best.value_or(*took), *took);
      if (*took > seconds_of(options.budget) / 4) break;
    }
    if (bytes == 0) {
      figures.rtt_s = *best;
    } else {
      figures.points.push_back({bytes, *best});
    }
    if (*best > seconds_of(options.budget) / 4 || clock.now() - start > options.budget) break;
  }
  if (figures.points.empty()) {
    // Even an empty message was slow: one small one must do.
    const Result<double> took = round_trip(link, clock, ++number, std::span(body).first(1), end);
    if (!took.ok()) return took.status();
    figures.points.push_back({1, *took});
  }
  figures.bandwidth = bandwidth_of(figures.points, figures.rtt_s);
  return figures;
}

Status answer_measurement(Link& link, Duration patience) {
  std::vector<std::byte> body;
  for (uint64_t count = 0; count < kMeasureMessagesMax; ++count) {
    const Result<MessageHead> head = link.receive_head(patience);
    if (!head.ok()) return head.status().code() == Errc::kPeerLost ? Status() : head.status();
    if (head->kind != MessageKind::kControl || head->bytes > kMeasureBytesMax) {
      link.close();
      return {Errc::kCorrupt, fmt::format("[measure link] a message of kind {} and {} bytes",
                                          static_cast<int>(head->kind), head->bytes)};
    }
    body.resize(head->bytes);
    if (Status taken = link.receive_body(body, patience); !taken.ok()) return taken;
    if (Status sent = send_message(link, {.kind = MessageKind::kControl, .step = head->step}, {}, patience);
        !sent.ok())
      return sent.code() == Errc::kPeerLost ? Status() : sent;
  }
  link.close();
  return {Errc::kTimeout, fmt::format("[measure link] more than {} messages", kMeasureMessagesMax)};
}

}  // namespace butterfly::cluster
