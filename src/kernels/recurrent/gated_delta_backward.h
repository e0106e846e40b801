// One token of the gated delta rule (gated_delta.h) backwards: from the gradient G of the state behind the
// token to that of the state S before it, and to the gradients of all that the token brought.
//
//   t[i][j] = S[i][j] * decay,  a[j] = chain of FMAs of t[i][j] with k[i],  e[j] = v[j] - a[j],
//   d[j] = beta * e[j],  o[j] = dout[j] * scale
//   G[i][j] = fma(q[i], o[j], G[i][j])
//   w[j]    = chain of FMAs of G[i][j] with k[i], i in order;  dv[j] = beta * w[j]
//   dq[i]  += sum of fma(k[i], d[j], t[i][j]) * o[j]
//   dk[i]  += sum of G[i][j] * d[j] - t[i][j] * dv[j]
//   g       = fma(k[i], -dv[j], G[i][j]);  ddecay = sum of g * S[i][j];  G[i][j] = g * decay
//   dbeta   = sum of w[j] * e[j]
//
// Sums over columns have 16 parts: column j belongs to part j mod 16, panels are added in order with one FMA
// each (ddecay: each panel is a chain over i, and panels are added in order), and a tree of halves adds the
// parts. So no width of vectors changes a bit.
#pragma once
#include "kernels/recurrent/gated_delta.h"

namespace butterfly::kernels {

// Borrows all rows. dq and dk are added to, dv is written.
struct DeltaGradient {
  const float* dout;  // [value_dim]
  float* dq;          // [key_dim]
  float* dk;          // [key_dim]
  float* dv;          // [value_dim]
  float ddecay, dbeta;
};

// `token.out` is not read. `before`: the state before the token. `gradient` becomes that of `before`.
// `spare`: delta_spare_floats().
void gated_delta_backward(const DeltaShape& shape, const float* before, const DeltaToken& token,
                          float* gradient, DeltaGradient& to, float* spare);
inline size_t delta_spare_floats(const DeltaShape& shape) { return 2 * kDeltaPanel * shape.key_dim; }

namespace ref {
void gated_delta_backward(const DeltaShape& shape, const float* before, const DeltaToken& token,
                          float* gradient, DeltaGradient& to, float* spare);
}

}  // namespace butterfly::kernels
