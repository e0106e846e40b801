// Readiness that is true: a server whose engines make no progress says so.
#pragma once
#include <string>

#include "runtime/engine/stats.h"
#include "server/context/server_context.h"

namespace butterfly::server {

// Longer than this without a step, while there is work, is a stall. Steps of large models on slow machines
// may take longer: then many times what steps have taken so far.
inline constexpr std::chrono::milliseconds kStallTime{2500};
inline constexpr int kStallSteps = 20;

// Empty if the engine is idle or advances.
std::string why_stalled(const runtime::EngineStats& stats, TimePoint now);

// Empty if requests are taken and worked on.
std::string why_not_ready(ServerContext& context);

}  // namespace butterfly::server
