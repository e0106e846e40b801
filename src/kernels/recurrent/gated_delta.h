// The gated delta rule (Yang, Kautz, Hatamizadeh, "Gated delta networks", 2024) as a recurrence over tokens.
// One head has a matrix S that maps keys to values; a token fades it, corrects what it says for its key, and
// asks it for its query:
//
//   t[i][j] = S[i][j] * decay
//   a[j]    = chain of FMAs of t[i][j] with k[i], i in order
//   d[j]    = beta * (v[j] - a[j])
//   S[i][j] = fma(k[i], d[j], t[i][j])
//   o[j]    = chain of FMAs of S[i][j] with q[i], i in order;  out[j] = o[j] * scale
//
// Columns j stand in vector lanes and never meet, so neither the width of vectors nor how many tokens share a
// call changes a bit: reading a prompt gives the state that token by token would.
#pragma once
#include <cstddef>

namespace butterfly::kernels {

inline constexpr size_t kDeltaPanel = 16;  // columns that stand together

// S is [value_dim / 16][key_dim][16].
struct DeltaShape {
  size_t key_dim = 0;
  size_t value_dim = 0;  // a multiple of kDeltaPanel
  float scale = 1;       // usually 1 / sqrt(key_dim)
  size_t state_floats() const { return key_dim * value_dim; }
};

// One token. Borrows all rows; `out` null: only the state is wanted.
struct DeltaToken {
  const float* q;  // [key_dim]
  const float* k;  // [key_dim]
  const float* v;  // [value_dim]
  float* out;      // [value_dim]
  float decay, beta;
};

// `count` tokens one after the other: the state at `from` (null: zeros) becomes that at `to`, which may be
// the same.
void gated_delta(const DeltaShape& shape, const float* from, float* to, const DeltaToken* tokens,
                 size_t count);

namespace ref {
void gated_delta(const DeltaShape& shape, const float* from, float* to, const DeltaToken* tokens,
                 size_t count);
}

}  // namespace butterfly::kernels
