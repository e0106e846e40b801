#include "server/context/health.h"

#include <fmt/format.h>

namespace butterfly::server {

std::string why_stalled(const runtime::EngineStats& stats, TimePoint now) {
  if (!stats.busy_since) return {};
  Duration bound = kStallTime;
  if (stats.steps > 0)
    bound = std::max<Duration>(bound, kStallSteps * stats.step_time / static_cast<int64_t>(stats.steps));
  const Duration stuck = now - *stats.busy_since;
  if (stuck <= bound) return {};
  return fmt::format("no step has ended for {:.1f} s", std::chrono::duration<double>(stuck).count());
}

std::string why_not_ready(ServerContext& context) {
  if (context.draining) return "shutting down";
  const auto now = SystemClock::instance().now();
  for (const ModelInfo& info : context.models->list()) {
    if (info.state == ModelState::kLoading) return fmt::format("{} is being loaded", info.spec.name);
    if (info.model == nullptr) continue;
    if (const std::string why = why_stalled(info.model->engine().stats(), now); !why.empty())
      return fmt::format("{}: {}", info.spec.name, why);
  }
  return {};
}

}  // namespace butterfly::server
