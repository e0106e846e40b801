// Heads of length 1: x / max(|x|, eps), for the first columns of a row; the others pass as they are.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/gradients.h"
#include "graph/ops/op_util.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/rows/reduce.h"

namespace butterfly::graph {
namespace {

struct Attrs {
  size_t heads, head_dim;
  float eps;
};

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const auto& attrs = node.attrs<Attrs>();
  if (attrs.heads * attrs.head_dim > g.type(node.inputs[0]).cols())
    fail(Errc::kInvalidArgument, "[{}] {}: {} heads of {} in rows of {}", node.op->name, node.name,
         attrs.heads, attrs.head_dim, g.type(node.inputs[0]).cols());
  return same_as_first(g, node);
}

Cost cost(const Graph& g, const Node& node, const CostContext&) { return elementwise_cost(g, node, 3); }

void forward(const Node& node, const RunContext& run) {
  const auto& attrs = node.attrs<Attrs>();
  const ValueType& type = run.type(node.outputs[0]);
  const size_t cols = type.cols(), dim = attrs.head_dim, normed = attrs.heads * dim;
  const float* x = run.f32(node.inputs[0]);
  float* out = run.f32(node.outputs[0]);
  run.for_rows(type.rows(), cols, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      const float* from = x + row * cols;
      float* to = out + row * cols;
      for (size_t h = 0; h < attrs.heads; ++h) {
        const float length = std::sqrt(kernels::sum_squares(from + h * dim, dim));
        kernels::scale(from + h * dim, 1.0f / std::max(length, attrs.eps), to + h * dim, dim);
      }
      if (from != to) std::copy(from + normed, from + cols, to + normed);
    }
  });
}

// Inputs: x, dy. With y = x / n: dx = (dy - y (y . dy)) / n; below eps n is no function of x.
void forward_grad(const Node& node, const RunContext& run) {
  const auto& attrs = node.attrs<Attrs>();
  const ValueType& type = run.type(node.outputs[0]);
  const size_t cols = type.cols(), dim = attrs.head_dim, normed = attrs.heads * dim;
  run.for_rows(type.rows(), cols, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      const float* x = run.f32(node.inputs[0]) + row * cols;
      const float* dy = run.f32(node.inputs[1]) + row * cols;
      float* dx = run.f32(node.outputs[0]) + row * cols;
      for (size_t at = 0; at < normed; at += dim) {
        const float length = std::sqrt(kernels::sum_squares(x + at, dim));
        const float inverse = 1.0f / std::max(length, attrs.eps);
        // The sum is read before dx, which may be dy, is written.
        const float along = length > attrs.eps ? kernels::dot(x + at, dy + at, dim) * inverse * inverse : 0;
        kernels::add_scaled(dy + at, x + at, -along, dx + at, dim);
        kernels::scale(dx + at, inverse, dx + at, dim);
      }
      if (dx != dy) std::copy(dy + normed, dy + cols, dx + normed);
    }
  });
}

void backward(GradientBuilder& b, const Node& node);

}  // namespace

extern const OpType kL2NormOp;
extern const OpType kL2NormGradOp;
const OpType kL2NormOp{"l2_norm", infer, cost, nullptr, 0, forward, nullptr, backward};
const OpType kL2NormGradOp{"l2_norm_grad", infer, cost, nullptr, 1, forward_grad};

namespace {

void backward(GradientBuilder& b, const Node& node) {
  b.add(node.inputs[0], b.graph().add(kL2NormGradOp, {node.inputs[0], b.of(node.outputs[0])}, node.attributes,
                                      node.name + ".grad")[0]);
}

}  // namespace

ValueId l2_norm(Graph& g, ValueId x, size_t heads, size_t head_dim, float eps, std::string name) {
  return g.add(kL2NormOp, {x}, std::make_shared<Attrs>(Attrs{heads, head_dim, eps}), std::move(name))[0];
}

}  // namespace butterfly::graph
