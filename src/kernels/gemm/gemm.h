// C = op(A) op(B) in single precision: the products of training. What an output is, exactly:
//
//   acc = accumulate ? C[i][j] : 0;  acc = fma(A[i][p], B[p][j], acc) for p = 0, 1, 2, ... k - 1
//   C[i][j] = activation(acc + bias[j])
//
// One chain per output, so tiles, blocks of k, threads and targets change only the speed; and the forward
// product has the bits of matmul() with the same weights as F32 panels. With `shard_unit` acc is one such
// chain per logical shard of p and the tree over them (tiles/shards.h), as matmul_shards() has it.
#pragma once
#include <cstddef>

#include "base/thread_pool.h"
#include "kernels/gemm/epilogue.h"

namespace butterfly::kernels {

// A matrix of floats in memory: rows `stride` floats apart. `transposed`: the operand is its transpose.
struct GemmOperand {
  const float* data = nullptr;
  size_t stride = 0;
  bool transposed = false;
  float at(size_t row, size_t col) const {
    return transposed ? data[col * stride + row] : data[row * stride + col];
  }
};

// The three products of a linear layer y = x W^T + bias with x [m, in], W [out, in]:
//   forward  Y  = X  W^T   {m, out, in},  a = {X, in},          b = {W, in, true}
//   to X     dX = dY W     {m, in, out},  a = {dY, out},        b = {W, in}
//   to W     dW = dY^T X   {out, in, m},  a = {dY, out, true},  b = {X, in}
struct Gemm {
  size_t m = 0, n = 0, k = 0;
  GemmOperand a;  // op(A) is [m, k]
  GemmOperand b;  // op(B) is [k, n]
  float* c = nullptr;
  size_t c_stride = 0;
  bool accumulate = false;
  Epilogue epilogue = {};  // `before` has c's stride
  // Columns of a unit of logical shards (a row-parallel layer's forward product); 0: one chain. Not with
  // accumulate.
  size_t shard_unit = 0;
};

// C must not overlap the operands. Scratch belongs to the calling threads and is kept. No size is special:
// k = 0 gives zeros (or C) through the epilogue.
void gemm(const Gemm& job, ThreadPool& pool);
// In the calling thread alone.
void gemm(const Gemm& job);

namespace ref {
void gemm(const Gemm& job);
}

}  // namespace butterfly::kernels
