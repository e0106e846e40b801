// What a layer must remember of a text between its positions. The architecture says it; memory forecast,
// planner, cache and scheduler ask.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/attention/kv_page.h"

namespace butterfly::model {

enum class StateKind : uint8_t {
  kFull,       // keys and values of all positions
  kWindow,     // keys and values of the last `window` positions
  kRecurrent,  // numbers of a fixed size, which cannot go back to an earlier position
  kShared,     // nothing of its own: it reads the keys and values of layer `source`, an earlier one
  kNone,       // nothing
};

struct LayerState {
  StateKind kind = StateKind::kFull;
  size_t kv_heads = 0;  // of keys and values; kShared: of those it reads
  size_t head_dim = 0;
  size_t latent_dim = 0;    // values are the first so many of each key, and are not kept apart; 0: they are
  size_t window = 0;        // kWindow; kShared: of the source, 0 where that keeps all positions
  size_t state_floats = 0;  // kRecurrent: after any position
  size_t guess_floats = 0;  // kRecurrent: what must be known of a position to bring the state past it
  size_t source = 0;        // kShared: a layer that keeps keys and values

  // Numbers kept of one position, by all heads.
  size_t position_values() const { return kv_heads * head_dim * (latent_dim > 0 ? 1 : 2); }
  // Keys and values that are its own.
  bool keeps_keys() const { return kind == StateKind::kFull || kind == StateKind::kWindow; }
  bool attends() const { return keeps_keys() || kind == StateKind::kShared; }

  friend bool operator==(const LayerState&, const LayerState&) = default;
};

// A page of one of its heads.
inline kernels::KvLayout kv_layout(const LayerState& layer, DType kv_type) {
  return {kv_type, layer.head_dim, layer.latent_dim, layer.latent_dim > 0};
}

// "16 x full, 8 x window of 512": layers of each kind, for people.
std::string describe(std::span<const LayerState> layers);

}  // namespace butterfly::model
