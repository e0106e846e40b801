#include "kernels/simd/target.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "base/error.h"
#include "hwy/highway.h"
#include "kernels/simd/tile_support.h"

namespace butterfly::kernels {
namespace {

// Highway's bits for what was compiled and this CPU can run, best (lowest bit) first, without the scalar
// fallback.
std::vector<int64_t> vector_targets() {
  std::vector<int64_t> targets;
  const int64_t skip = HWY_SCALAR | HWY_EMU128;
  for (int64_t bits = hwy::SupportedTargets() & HWY_TARGETS & ~skip; bits != 0; bits &= bits - 1)
    targets.push_back(bits & -bits);
  return targets;
}

// What the machine has, read before anything is forced.
const std::vector<int64_t>& machine_targets() {
  static const std::vector<int64_t> targets = vector_targets();
  return targets;
}

// "AMX": everything as AVX3_DL, and matrix tiles for batches of rows.
constexpr const char* kAmx = "AMX";
bool has_amx() {
  const auto& targets = machine_targets();
  return !targets.empty() && targets.front() == HWY_AVX3_DL && has_int8_tiles();
}
enum class Tiles : int { kUndecided, kOff, kOn };
std::atomic<Tiles> tiles = Tiles::kUndecided;

void choose(int64_t mask, bool with_amx) {
  hwy::GetChosenTarget().Update(mask);
  tiles = with_amx ? Tiles::kOn : Tiles::kOff;
}

// Environment variable at start: an unknown name is reported by the first explicit use, not by a crash in a
// constructor.
[[maybe_unused]] const bool kFromEnvironment = [] {
  const char* name = std::getenv("BUTTERFLY_TARGET");
  if (name == nullptr || *name == '\0') return false;
  try {
    force_target(name);
  } catch (const Error& error) {
    fmt::print(stderr, "butterfly: BUTTERFLY_TARGET ignored: {}\n", error.what());
  }
  return true;
}();

}  // namespace

std::vector<std::string> available_targets() {
  std::vector<std::string> names;
  if (has_amx()) names.emplace_back(kAmx);
  for (int64_t target : machine_targets()) names.emplace_back(hwy::TargetName(target));
  if constexpr (HWY_TARGETS & HWY_SCALAR) names.emplace_back("ref");
  return names;
}

std::string target_name() {
  if (!hwy::GetChosenTarget().IsInitialized()) force_target("");
  // The chosen mask holds every allowed target; the lowest one is used.
  for (int64_t target : machine_targets()) {
    hwy::ChosenTarget probe;
    probe.Update(target);
    if (probe.GetIndex() == hwy::GetChosenTarget().GetIndex())
      return tiles_chosen() ? kAmx : hwy::TargetName(target);
  }
  return "ref";
}

void force_target(std::string_view name) {
  if (name.empty()) {
    int64_t mask = 0;
    for (int64_t target : machine_targets()) mask |= target;
    return choose(mask, has_amx());
  }
  if (name == kAmx && has_amx()) return choose(machine_targets().front(), true);
  for (int64_t target : machine_targets())
    if (name == hwy::TargetName(target)) return choose(target, false);
  const auto names = available_targets();
  if (std::find(names.begin(), names.end(), name) == names.end())
    fail(Errc::kInvalidArgument, "target {}: this machine has {}", name, fmt::join(names, ", "));
  choose(0, false);
}

bool tiles_chosen() {
  // Nothing was forced: Highway takes its best, and so do we.
  if (tiles.load(std::memory_order_relaxed) == Tiles::kUndecided)
    tiles = has_amx() ? Tiles::kOn : Tiles::kOff;
  return tiles.load(std::memory_order_relaxed) == Tiles::kOn;
}

}  // namespace butterfly::kernels
