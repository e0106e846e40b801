#include "model/cache/layer_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace butterfly::model {
namespace {

std::string words(const LayerState& state) {
  switch (state.kind) {
    case StateKind::kFull:
      return state.latent_dim > 0 ? fmt::format("all positions, as latents of {}", state.head_dim)
                                  : "all positions";
    case StateKind::kWindow:
      return fmt::format("a window of {}", state.window);
    case StateKind::kRecurrent:
      return fmt::format("a recurrent state of {}", format_bytes(state.state_floats * sizeof(float)));
    case StateKind::kShared:
      return "nothing of their own, and read another layer's keys";
    case StateKind::kNone:
      return "nothing";
  }
  return "unknown";
}

}  // namespace

std::string describe(std::span<const LayerState> layers) {
  std::vector<std::pair<std::string, size_t>> counts;
  for (const LayerState& layer : layers) {
    const auto found = std::ranges::find(counts, words(layer), &std::pair<std::string, size_t>::first);
    if (found == counts.end()) {
      counts.emplace_back(words(layer), 1);
    } else {
      ++found->second;
    }
  }
  std::string text;
  for (const auto& [what, count] : counts)
    text += fmt::format("{}{} of {} layers keep {}", text.empty() ? "" : "; ", count, layers.size(), what);
  return text;
}

}  // namespace butterfly::model
