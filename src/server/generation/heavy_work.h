// Work that takes long is not done on the threads that short requests need.
#pragma once
#include <cstdint>

namespace butterfly::server {

// Thrown by a route that finds, on a thread for short requests, that more is to be done than those should
// wait for: the dispatcher gives the request to a thread for long ones, where the route begins again.
struct HeavyWork {};

// Set by threads that are for short requests only.
inline thread_local bool this_thread_is_light = false;

// Steps of a chat template that such a thread takes (about a millisecond); templates of today take some
// hundreds for a message.
inline constexpr uint64_t kLightTemplateSteps = 20'000;

}  // namespace butterfly::server
