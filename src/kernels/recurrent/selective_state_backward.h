// One token of Mamba-2's recurrence (selective_state.h) backwards: from the gradient G of the state behind
// the token to that of the state S before it, and to the gradients of all that the token brought.
//
//   u[j]    = x[j] * dt
//   G[i][j] = fma(c[i], dout[j], G[i][j])
//   dc[i]  += sum of fma(b[i], u[j], S[i][j] * decay) * dout[j]
//   db[i]  += sum of G[i][j] * u[j]
//   w[j]    = chain of FMAs of G[i][j] with b[i], i in order
//   dx[j]   = fma(w[j], dt, dout[j] * skip);  ddt = sum of w[j] * x[j]
//   ddecay  = sum of G[i][j] * S[i][j];  G[i][j] = G[i][j] * decay
//
// Sums over columns have 16 parts as in gated_delta_backward.h.
#pragma once
#include "kernels/recurrent/selective_state.h"

namespace butterfly::kernels {

// Borrows all rows. db and dc are added to, dx is written.
struct SelectiveGradient {
  const float* dout;  // [head_dim]
  float* db;          // [state_dim]
  float* dc;          // [state_dim]
  float* dx;          // [head_dim]
  float ddecay, ddt;
};

// `token.out` is not read. `before`: the state before the token. `gradient` becomes that of `before`.
// `spare`: selective_spare_floats().
void selective_state_backward(const SelectiveShape& shape, const float* before, const SelectiveToken& token,
                              float* gradient, SelectiveGradient& to, float* spare);
inline size_t selective_spare_floats(const SelectiveShape& shape) {
  return 2 * kSelectivePanel * shape.state_dim;
}

namespace ref {
void selective_state_backward(const SelectiveShape& shape, const float* before, const SelectiveToken& token,
                              float* gradient, SelectiveGradient& to, float* spare);
}

}  // namespace butterfly::kernels
