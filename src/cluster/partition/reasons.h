// Why a plan is as it is, in words: who was left out and what that saves.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "cluster/cost/problem.h"

namespace butterfly::cluster {

// What a reason says of a node whose memory holds not even one piece.
inline constexpr const char* kRoomForNothing = "the smallest piece needs";

// `latency_with_s`, by node: the least latency of plans that use it, or empty if that is not known.
std::vector<std::string> explain_latency(const Problem& problem, const Plan& plan, double latency_s,
                                         std::span<const double> latency_with_s);
std::vector<std::string> explain_throughput(const Problem& problem, const Plan& plan,
                                            std::span<const double> latency_with_s);

}  // namespace butterfly::cluster
