// Cross-entropy as a loss: of logits, and of logits that exist only in pieces.
//
// Losses know their own gradient, so both ops leave it beside the loss: logits are turned into gradients in
// place, and for the second op neither exists for more than a chunk of rows.
#include <algorithm>
#include <cstring>

#include "graph/ops/grad_ops.h"
#include "kernels/gemm/gemm.h"
#include "kernels/rows/cross_entropy.h"
#include "kernels/rows/reduce.h"

namespace butterfly::graph {
namespace {

ValueType vector_type(size_t count, Elem elem = Elem::kF32) { return {elem, {static_cast<int64_t>(count)}}; }

void expect_targets(const Graph& g, const Node& node) {
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  expect_elem(g, node, node.inputs[1], Elem::kI32);
  expect_equal(node, "targets", g.type(node.inputs[0]).rows(), g.type(node.inputs[1]).rows());
  expect_elem(g, node, node.inputs[2], Elem::kF32);
}

// Rows of logits become rows of gradients. Rows without a target become zeros and count nothing.
void loss_rows(float* logits, size_t rows, size_t cols, const int32_t* targets, float factor, float* losses,
               int32_t* correct, const RunContext& run) {
  run.for_rows(rows, cols, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      BF_CHECK(targets[row] < static_cast<int32_t>(cols)) << "target " << targets[row] << " of " << cols;
      correct[row] = targets[row] >= 0 &&
                     kernels::argmax(logits + row * cols, cols) == static_cast<size_t>(targets[row]);
    }
  });
  kernels::cross_entropy_backward(logits, rows, cols, targets, factor, losses, run.pool());
}

// Outputs: loss, correct rows, losses of rows, gradient.
std::vector<ValueType> infer(const Graph& g, const Node& node) {
  expect_targets(g, node);
  const ValueType& x = g.type(node.inputs[0]);
  return {vector_type(1), vector_type(x.rows(), Elem::kI32), vector_type(x.rows()), x};
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  const ValueType& x = g.type(node.inputs[0]);
  return {.flops = 14 * x.rows() * x.cols(), .activation_bytes = value_bytes(g, node)};
}

void forward(const Node& node, const RunContext& run) {
  const ValueType& type = run.type(node.inputs[0]);
  const float factor = run.f32(node.inputs[2])[0];
  float* dx = run.f32(node.outputs[3]);
  float* losses = run.f32(node.outputs[2]);
  std::memcpy(dx, run.f32(node.inputs[0]), type.bytes());
  loss_rows(dx, type.rows(), type.cols(), run.i32(node.inputs[1]), factor, losses, run.i32(node.outputs[1]),
            run);
  run.f32(node.outputs[0])[0] = kernels::sum(losses, type.rows()) * factor;
}

void backward(GradientBuilder& b, const Node& node) {
  b.expect_root(node, node.outputs[0]);
  b.add(node.inputs[0], node.outputs[3]);
}

struct HeadAttrs {
  const Parameter* weight;
  bool with_gradients;
};

// Logits at once: a few dozen megabytes, and enough rows for the products.
constexpr size_t kChunkBytes = size_t{32} << 20;

size_t chunk_rows(size_t rows, size_t vocab) {
  const size_t most = std::max<size_t>(16, kChunkBytes / (vocab * sizeof(float)));
  const size_t chunks = (rows + most - 1) / most;
  const size_t even = (rows + chunks - 1) / chunks;
  return std::min(rows, (even + 15) / 16 * 16);
}

// Outputs: loss, correct rows, losses of rows, a chunk of logits; then dx and, if trainable, dw.
std::vector<ValueType> infer_head(const Graph& g, const Node& node) {
  const HeadAttrs& attrs = node.attrs<HeadAttrs>();
  expect_targets(g, node);
  const ValueType& x = g.type(node.inputs[0]);
  if (attrs.weight->value.dtype() != DType::kF32 || attrs.weight->value.rank() != 2)
    fail(Errc::kInvalidArgument, "[{}] {}: expected a matrix of type F32, found {} {}", node.op->name,
         attrs.weight->name, dtype_name(attrs.weight->value.dtype()),
         attrs.weight->value.shape().to_string());
  expect_equal(node, "columns", attrs.weight->cols(), x.cols());
  const size_t vocab = attrs.weight->rows();
  std::vector<ValueType> outputs = {vector_type(1), vector_type(x.rows(), Elem::kI32), vector_type(x.rows()),
                                    floats(chunk_rows(x.rows(), vocab), vocab)};
  if (attrs.with_gradients) outputs.push_back(x);
  if (attrs.with_gradients && attrs.weight->trainable) outputs.push_back(floats(vocab, x.cols()));
  return outputs;
}

// One product forward, one each to dx and dw.
Cost cost_head(const Graph& g, const Node& node, const CostContext&) {
  const ValueType& x = g.type(node.inputs[0]);
  const Parameter& weight = *node.attrs<HeadAttrs>().weight;
  const size_t products = node.outputs.size() - 3;
  return {.flops = products * 2 * x.rows() * x.cols() * weight.rows() + 14 * x.rows() * weight.rows(),
          .weight_bytes = std::min<size_t>(products, 2) * weight.value.bytes(),
          .activation_bytes = value_bytes(g, node)};
}

void forward_head(const Node& node, const RunContext& run) {
  const HeadAttrs& attrs = node.attrs<HeadAttrs>();
  const ValueType& type = run.type(node.inputs[0]);
  const size_t dim = type.cols(), vocab = attrs.weight->rows();
  const size_t chunk = run.type(node.outputs[3]).rows();
  const float* weight = attrs.weight->value.data<float>();
  const float factor = run.f32(node.inputs[2])[0];
  float* losses = run.f32(node.outputs[2]);
  float* logits = run.f32(node.outputs[3]);
  for (size_t row = 0; row < type.rows(); row += chunk) {
    const size_t rows = std::min(chunk, type.rows() - row);
    const float* x = run.f32(node.inputs[0]) + row * dim;
    kernels::gemm({.m = rows,
                   .n = vocab,
                   .k = dim,
                   .a = {x, dim},
                   .b = {weight, dim, true},
                   .c = logits,
                   .c_stride = vocab},
                  run.pool());
    loss_rows(logits, rows, vocab, run.i32(node.inputs[1]) + row, factor, losses + row,
              run.i32(node.outputs[1]) + row, run);
    if (!attrs.with_gradients) continue;
    kernels::gemm({.m = rows,
                   .n = dim,
                   .k = vocab,
                   .a = {logits, vocab},
                   .b = {weight, dim},
                   .c = run.f32(node.outputs[4]) + row * dim,
                   .c_stride = dim},
                  run.pool());
    if (node.outputs.size() > 5)
      kernels::gemm({.m = vocab,
                     .n = dim,
                     .k = rows,
                     .a = {logits, vocab, true},
                     .b = {x, dim},
                     .c = run.f32(node.outputs[5]),
                     .c_stride = dim,
                     .accumulate = row > 0},
                    run.pool());
  }
  run.f32(node.outputs[0])[0] = kernels::sum(losses, type.rows()) * factor;
}

std::vector<const Parameter*> head_weight(const Node& node) { return {node.attrs<HeadAttrs>().weight}; }

void backward_head(GradientBuilder& b, const Node& node) {
  const HeadAttrs& attrs = node.attrs<HeadAttrs>();
  b.expect_root(node, node.outputs[0]);
  if (!attrs.with_gradients)
    fail(Errc::kUnsupported, "[{}] {}: built for evaluation, without gradients", node.op->name, node.name);
  b.add(node.inputs[0], node.outputs[4]);
  if (node.outputs.size() > 5) b.add(*attrs.weight, node.outputs[5]);
}

Loss loss_of(const std::vector<ValueId>& outputs) { return {outputs[0], outputs[1], outputs[2]}; }

}  // namespace

extern const OpType kCrossEntropyOp;
extern const OpType kLinearCrossEntropyOp;
const OpType kCrossEntropyOp{"cross_entropy", infer, cost, nullptr, -1, forward, nullptr, backward};
const OpType kLinearCrossEntropyOp{"linear_cross_entropy", infer_head,  cost_head,    nullptr, -1,
                                   forward_head,           head_weight, backward_head};

Loss cross_entropy(Graph& g, ValueId logits, ValueId targets, ValueId factor, std::string name) {
  return loss_of(g.add(kCrossEntropyOp, {logits, targets, factor}, nullptr, std::move(name)));
}

Loss linear_cross_entropy(Graph& g, ValueId x, const Parameter& weight, ValueId targets, ValueId factor,
                          bool with_gradients, std::string name) {
  return loss_of(g.add(kLinearCrossEntropyOp, {x, targets, factor},
                       std::make_shared<HeadAttrs>(HeadAttrs{&weight, with_gradients}), std::move(name)));
}

}  // namespace butterfly::graph
