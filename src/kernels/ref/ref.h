// The plain loops that define what each kernel computes. Slow and clear; the "ref" target runs them, tests
// race against them. Contracts are those of the headers of the same names one folder up.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/rows/weight_units.h"

namespace butterfly::kernels::ref {

// elementwise.cc
void add(const float* a, const float* b, float* out, size_t count);
void sub(const float* a, const float* b, float* out, size_t count);
void mul(const float* a, const float* b, float* out, size_t count);
void scale(const float* a, float factor, float* out, size_t count);
void add_scaled(const float* a, const float* b, float factor, float* out, size_t count);

// reduce.cc
float dot(const float* a, const float* b, size_t count);
float sum(const float* a, size_t count);
float sum_squares(const float* a, size_t count);
float max_value(const float* a, size_t count);
size_t argmax(const float* a, size_t count);

// softmax.cc
void softmax(float* row, size_t count);
void soft_cap(float* x, float cap, size_t count);

// row_scan.cc
bool block_maxima(const float* row, size_t count, size_t block, float* maxima);
size_t collect_between(const float* row, size_t count, int32_t first, float least, float below, float* values,
                       int32_t* indices);
void keep_allowed(const float* row, size_t count, const uint64_t* allowed, float* out);

// weight_units.cc
void weigh_logits(const float* logits, size_t count, WeightScale scale, float* weights);
uint64_t sum_units(const float* logits, size_t count, float least, WeightScale scale);
void sum_unit_blocks(const float* logits, size_t count, size_t block, WeightScale scale, uint64_t* sums);

// norm.cc
void rms_norm(const float* x, const float* weight, float eps, float* out, size_t count);
void layer_norm(const float* x, const float* weight, const float* bias, float eps, float* out, size_t count);

// activation.cc
void relu(const float* a, float* out, size_t count);
void sigmoid(const float* a, float* out, size_t count);
void tanh(const float* a, float* out, size_t count);
void silu(const float* a, float* out, size_t count);
void gelu(const float* a, float* out, size_t count);
void gelu_erf(const float* a, float* out, size_t count);
void swiglu(const float* gate, const float* up, float* out, size_t count);
void geglu(const float* gate, const float* up, float* out, size_t count);

// rope.cc: one head. `turns` is [2][pairs]: cosines, then sines.
void rope_interleaved(const float* turns, size_t pairs, float* head);
void rope_half_split(const float* turns, size_t pairs, float* head);

}  // namespace butterfly::kernels::ref
