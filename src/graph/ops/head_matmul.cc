// Each head's columns times the head's own matrix: the products around a latent that all heads share.
//
// Rows are quantised where the matrix wants that, each head's columns alone: so a head does not see the
// others, and any part of them can be computed elsewhere.
#include "base/checked.h"
#include "graph/gradients.h"
#include "graph/ops/op_util.h"
#include "kernels/gemm/matmul_dx.h"
#include "kernels/matmul/matmul.h"
#include "kernels/tiles/activation_rows.h"

namespace butterfly::graph {
namespace {

using kernels::ActKind;

constexpr size_t kRows = 64;  // of one unit of work

struct Attrs {
  const ExpertParameter* heads;
  const kernels::PackedMatrix& matrix(size_t head) const { return heads->experts[head]; }
  size_t count() const { return heads->experts.size(); }
};

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const auto& attrs = node.attrs<Attrs>();
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  const ValueType& x = g.type(node.inputs[0]);
  expect_equal(node, "columns", attrs.count() * (attrs.count() == 0 ? 0 : attrs.matrix(0).cols()), x.cols());
  return {floats(x.rows(), attrs.count() * attrs.matrix(0).rows())};
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  const auto& attrs = node.attrs<Attrs>();
  const kernels::PackedMatrix& one = attrs.matrix(0);
  Cost cost{.activation_bytes = value_bytes(g, node)};
  cost.flops = 2 * g.type(node.inputs[0]).rows() * attrs.count() * one.rows() * one.cols();
  cost.weight_bytes = attrs.count() * one.bytes();
  return cost;
}

size_t stride_of(const Attrs& attrs) {
  const kernels::PackedMatrix& one = attrs.matrix(0);
  return kernels::act_layout(one.act(), one.cols()).row_bytes;
}

size_t scratch(const Graph&, const Node& node) {
  const auto& attrs = node.attrs<Attrs>();
  return attrs.matrix(0).act() == ActKind::kF32 ? 0 : kRows * stride_of(attrs);
}

void forward(const Node& node, const RunContext& run) {
  const auto& attrs = node.attrs<Attrs>();
  const size_t rows = run.type(node.inputs[0]).rows(), heads = attrs.count();
  const size_t in = attrs.matrix(0).cols(), out = attrs.matrix(0).rows(), stride = stride_of(attrs);
  const ActKind kind = attrs.matrix(0).act();
  const float* x = run.f32(node.inputs[0]);
  float* y = run.f32(node.outputs[0]);
  const size_t blocks = ceil_div(rows, kRows);
  std::atomic<size_t> next{0};
  run.pool().run([&](size_t worker) {
    for (size_t unit = next.fetch_add(1); unit < blocks * heads; unit = next.fetch_add(1)) {
      const size_t head = unit % heads, begin = unit / heads * kRows, count = std::min(kRows, rows - begin);
      const float* from = x + begin * heads * in + head * in;
      float* to = y + begin * heads * out + head * out;
      if (kind == ActKind::kF32) {
        kernels::matmul(attrs.matrix(head), reinterpret_cast<const std::byte*>(from),
                        heads * in * sizeof(float), count, to, heads * out, 0, out);
        continue;
      }
      std::byte* acts = run.scratch(node, worker);
      for (size_t i = 0; i < count; ++i)
        kernels::quantize_activation(kind, from + i * heads * in, in, acts + i * stride);
      kernels::matmul(attrs.matrix(head), acts, stride, count, to, heads * out, 0, out);
    }
  });
}

std::vector<ValueType> infer_dx(const Graph& g, const Node& node) {
  const auto& attrs = node.attrs<Attrs>();
  const ValueType& dy = g.type(node.inputs[0]);
  expect_equal(node, "columns", attrs.count() * attrs.matrix(0).rows(), dy.cols());
  return {floats(dy.rows(), attrs.count() * attrs.matrix(0).cols())};
}

// dX = dY W, head by head.
void forward_dx(const Node& node, const RunContext& run) {
  const auto& attrs = node.attrs<Attrs>();
  const size_t heads = attrs.count(), in = attrs.matrix(0).cols(), out = attrs.matrix(0).rows();
  for (size_t head = 0; head < heads; ++head)
    kernels::matmul_dx(attrs.matrix(head), run.f32(node.inputs[0]) + head * out, heads * out,
                       run.type(node.inputs[0]).rows(), run.f32(node.outputs[0]) + head * in, heads * in,
                       false, run.pool());
}

void backward(GradientBuilder& b, const Node& node);

}  // namespace

extern const OpType kHeadMatmulOp;
extern const OpType kHeadMatmulDxOp;
const OpType kHeadMatmulOp{"head_matmul", infer, cost, scratch, -1, forward, nullptr, backward};
const OpType kHeadMatmulDxOp{"head_matmul_dx", infer_dx, cost, nullptr, -1, forward_dx};

namespace {

// Packed weights are frozen: only the rows get a gradient.
void backward(GradientBuilder& b, const Node& node) {
  b.add(node.inputs[0],
        b.graph().add(kHeadMatmulDxOp, {b.of(node.outputs[0])}, node.attributes, node.name + ".dx")[0]);
}

}  // namespace

ValueId head_matmul(Graph& g, ValueId x, const ExpertParameter& heads, std::string name) {
  return g.add(kHeadMatmulOp, {x}, std::make_shared<Attrs>(Attrs{&heads}), std::move(name))[0];
}

}  // namespace butterfly::graph
