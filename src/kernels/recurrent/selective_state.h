// The recurrence of Mamba-2 (Dao, Gu, "Transformers are SSMs", 2024) over tokens. One head has a matrix S of
// state_dim x head_dim numbers; a token fades it, adds what it brings, and reads it:
//
//   u[j]    = x[j] * dt
//   S[i][j] = fma(b[i], u[j], S[i][j] * decay)
//   o[j]    = chain of FMAs of S[i][j] with c[i], i in order;  out[j] = fma(x[j], skip, o[j])
//
// Columns j stand in vector lanes and never meet, so neither the width of vectors nor how many tokens share a
// call changes a bit: reading a prompt gives the state that token by token would.
#pragma once
#include <cstddef>

namespace butterfly::kernels {

inline constexpr size_t kSelectivePanel = 16;  // columns that stand together

// S is [head_dim / 16][state_dim][16].
struct SelectiveShape {
  size_t state_dim = 0;
  size_t head_dim = 0;  // a multiple of kSelectivePanel
  float skip = 0;       // of the input, past the state
  size_t state_floats() const { return state_dim * head_dim; }
};

// One token. Borrows all rows; `out` null: only the state is wanted.
struct SelectiveToken {
  const float* b;  // [state_dim]
  const float* c;  // [state_dim]
  const float* x;  // [head_dim]
  float* out;      // [head_dim]; may be x
  float decay, dt;
};

// `count` tokens one after the other: the state at `from` (null: zeros) becomes that at `to`, which may be
// the same.
void selective_state(const SelectiveShape& shape, const float* from, float* to, const SelectiveToken* tokens,
                     size_t count);

namespace ref {
void selective_state(const SelectiveShape& shape, const float* from, float* to, const SelectiveToken* tokens,
                     size_t count);
}

}  // namespace butterfly::kernels
