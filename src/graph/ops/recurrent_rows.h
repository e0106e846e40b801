// Rows of recurrent ops as tokens of their kernels, for a cache and for training.
#pragma once
#include "graph/ops/op_util.h"
#include "kernels/math/math.h"
#include "kernels/recurrent/gated_delta.h"
#include "kernels/recurrent/selective_state.h"

namespace butterfly::graph {

// What a node over such rows gives; throws Error naming what does not fit.
inline ValueType delta_type(const Graph& g, const Node& node, const GatedDeltaShape& shape) {
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  expect_equal(node, "columns of queries, keys and values",
               2 * shape.key_heads * shape.key_dim + shape.value_heads * shape.value_dim,
               g.type(node.inputs[0]).cols());
  expect_equal(node, "columns of alpha", shape.value_heads, g.type(node.inputs[1]).cols());
  expect_equal(node, "columns of beta", shape.value_heads, g.type(node.inputs[2]).cols());
  if (shape.key_heads == 0 || shape.key_heads > shape.value_heads)
    fail(Errc::kInvalidArgument, "[{}] {}: {} key heads for {} value heads", node.op->name, node.name,
         shape.key_heads, shape.value_heads);
  if (!shape.tiled)
    expect_equal(node, "key heads", shape.key_head_of(shape.value_heads - 1) + 1, shape.key_heads);
  expect_equal(node, "values of a head beyond whole panels", 0, shape.value_dim % kernels::kDeltaPanel);
  return floats(g.type(node.inputs[0]).rows(), shape.value_heads * shape.value_dim);
}
inline ValueType selective_type(const Graph& g, const Node& node, const SelectiveStateShape& shape) {
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  expect_equal(node, "columns of inputs and groups", shape.columns(), g.type(node.inputs[0]).cols());
  expect_equal(node, "columns of steps", shape.heads, g.type(node.inputs[1]).cols());
  if (shape.groups == 0 || shape.groups > shape.heads)
    fail(Errc::kInvalidArgument, "[{}] {}: {} groups of {} heads", node.op->name, node.name, shape.groups,
         shape.heads);
  expect_equal(node, "groups", shape.group_of(shape.heads - 1) + 1, shape.groups);
  expect_equal(node, "values of a head beyond whole panels", 0, shape.head_dim % kernels::kSelectivePanel);
  return floats(g.type(node.inputs[0]).rows(), shape.heads * shape.head_dim);
}

// One value head of the gated delta rule: decay = exp(a * softplus(alpha + dt)), beta = sigmoid(b).
class DeltaHead {
 public:
  DeltaHead(const GatedDeltaShape& shape, size_t head)
      : shape_(shape),
        head_(head),
        a_(shape.a->value.data<float>()[head]),
        dt_(shape.dt->value.data<float>()[head]) {}

  kernels::DeltaShape matrix() const { return {shape_.key_dim, shape_.value_dim, shape_.scale}; }
  size_t keys() const { return shape_.key_heads * shape_.key_dim; }
  size_t values() const { return shape_.value_heads * shape_.value_dim; }
  size_t columns() const { return 2 * keys() + values(); }
  // Where the head's parts stand in a row.
  size_t query_at() const { return shape_.key_head_of(head_) * shape_.key_dim; }
  size_t key_at() const { return keys() + query_at(); }
  size_t value_at() const { return 2 * keys() + head_ * shape_.value_dim; }
  size_t gate_at(size_t row) const { return row * shape_.value_heads + head_; }
  size_t out_at(size_t row) const { return row * values() + head_ * shape_.value_dim; }

  kernels::DeltaToken gated(const float* q, const float* k, const float* v, float* out, float alpha,
                            float beta) const {
    return {
        q, k, v, out, kernels::exp_f32(a_ * kernels::softplus_f32(alpha + dt_)), kernels::sigmoid_f32(beta)};
  }
  // Of row `row`; `out` may be null.
  kernels::DeltaToken token(const float* qkv, const float* alpha, const float* beta, float* out,
                            size_t row) const {
    const float* from = qkv + row * columns();
    return gated(from + query_at(), from + key_at(), from + value_at(),
                 out == nullptr ? nullptr : out + out_at(row), alpha[gate_at(row)], beta[gate_at(row)]);
  }
  // What alpha and beta get from the gradients of decay and beta of such a token.
  float alpha_slope(const kernels::DeltaToken& token, float alpha, float ddecay) const {
    return ddecay * token.decay * a_ * kernels::sigmoid_f32(alpha + dt_);
  }
  static float beta_slope(const kernels::DeltaToken& token, float dbeta) {
    return dbeta * (token.beta * (1.0f - token.beta));
  }

 private:
  const GatedDeltaShape& shape_;
  size_t head_;
  float a_, dt_;
};

// One head of Mamba-2: dt = softplus(step + bias), decay = exp(dt * a).
class SelectiveHead {
 public:
  SelectiveHead(const SelectiveStateShape& shape, size_t head)
      : shape_(shape),
        head_(head),
        a_(shape.a->value.data<float>()[head]),
        bias_(shape.dt->value.data<float>()[head]) {}

  kernels::SelectiveShape matrix() const {
    return {shape_.state_dim, shape_.head_dim, shape_.skip->value.data<float>()[head_]};
  }
  size_t inner() const { return shape_.heads * shape_.head_dim; }
  size_t x_at() const { return head_ * shape_.head_dim; }
  size_t b_at() const { return inner() + shape_.group_of(head_) * shape_.state_dim; }
  size_t c_at() const { return b_at() + shape_.groups * shape_.state_dim; }
  size_t step_at(size_t row) const { return row * shape_.heads + head_; }
  size_t out_at(size_t row) const { return row * inner() + x_at(); }

  kernels::SelectiveToken stepped(const float* b, const float* c, const float* x, float* out,
                                  float step) const {
    const float dt = kernels::softplus_f32(step + bias_);
    return {b, c, x, out, kernels::exp_f32(dt * a_), dt};
  }
  // Of row `row`; `out` may be null.
  kernels::SelectiveToken token(const float* rows, const float* steps, float* out, size_t row) const {
    const float* from = rows + row * shape_.columns();
    return stepped(from + b_at(), from + c_at(), from + x_at(), out == nullptr ? nullptr : out + out_at(row),
                   steps[step_at(row)]);
  }
  // What the step gets from the gradients of decay and dt of such a token.
  float step_slope(const kernels::SelectiveToken& token, float step, float ddecay, float ddt) const {
    return (ddt + ddecay * token.decay * a_) * kernels::sigmoid_f32(step + bias_);
  }

 private:
  const SelectiveStateShape& shape_;
  size_t head_;
  float a_, bias_;
};

}  // namespace butterfly::graph
