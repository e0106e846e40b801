// What a layer must remember of a text between its positions. The architecture says it; memory forecast,
// planner, cache and scheduler ask.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace butterfly::model {

enum class StateKind : uint8_t {
  kFull,       // keys and values of all positions
  kWindow,     // keys and values of the last `window` positions
  kRecurrent,  // numbers of a fixed size, which cannot go back to an earlier position
};

struct LayerState {
  StateKind kind = StateKind::kFull;
  size_t kv_heads = 0;  // of keys and values
  size_t head_dim = 0;
  size_t window = 0;        // kWindow
  size_t state_floats = 0;  // kRecurrent: after any position
  size_t guess_floats = 0;  // kRecurrent: what must be known of a position to bring the state past it

  friend bool operator==(const LayerState&, const LayerState&) = default;
};

// "16 x full, 8 x window of 512": layers of each kind, for people.
std::string describe(std::span<const LayerState> layers);

}  // namespace butterfly::model
