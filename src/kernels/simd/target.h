// Which instruction set the kernels use. Chosen once at run time; tests and BUTTERFLY_TARGET may choose a
// lower one.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace butterfly::kernels {

// Version of the numerics rules (docs/decisions/0001-one-result.md). Nodes with unequal ids do not work
// together.
inline constexpr int kNumericsId = 3;

// Best first; the last one, "ref", is plain C++ without vectors. Only what this machine can run.
std::vector<std::string> available_targets();

// "AMX", "AVX3_DL", "AVX2", "SSE4", "NEON" or "ref".
std::string target_name();

// Uses this target from now on; "" returns to the best. Throws Error kInvalidArgument for a name that is not
// available. Not to be called while kernels run. The environment variable BUTTERFLY_TARGET does the same at
// start.
void force_target(std::string_view name);

// Whether products may use matrix tiles: target "AMX".
bool tiles_chosen();

// Calls fn(name) under each available target, best first, then returns to the one before.
template <typename F>
void for_each_target(F&& fn) {
  const std::string before = target_name();
  for (const std::string& name : available_targets()) {
    force_target(name);
    fn(name);
  }
  force_target(before);
}

}  // namespace butterfly::kernels
