// The gradient of rows through frozen weights of any element type: dX = dY W, a few rows of W at a time as
// floats. W^T is never formed, nor all of W.
#include <algorithm>
#include <cstring>

#include "graph/ops/grad_ops.h"
#include "kernels/gemm/gemm.h"
#include "kernels/quant/quant.h"

namespace butterfly::graph {
namespace {

// Rows of W per product: long enough for the chain of a product, small enough for the second-level cache.
constexpr size_t kWeightRows = 64;

struct Attrs {
  const Parameter* weight;
};

// Inputs: dy, or the sum so far and dy.
std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const Parameter& weight = *node.attrs<Attrs>().weight;
  if (!weight.value)
    fail(Errc::kUnsupported,
         "[{}] {}: the weights were packed and not kept; load the model for training to get gradients",
         node.op->name, weight.name);
  const ValueType& dy = g.type(node.inputs.back());
  expect_equal(node, "columns", weight.rows(), dy.cols());
  return {floats(dy.rows(), weight.cols())};
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  const Parameter& weight = *node.attrs<Attrs>().weight;
  return {.flops = 2 * g.type(node.inputs.back()).rows() * weight.rows() * weight.cols(),
          .weight_bytes = weight.value.bytes(),
          .activation_bytes = value_bytes(g, node)};
}

size_t scratch(const Graph&, const Node& node) {
  return kWeightRows * node.attrs<Attrs>().weight->cols() * sizeof(float);
}

// Threads take rows of dY; each walks the whole of W in order.
void forward(const Node& node, const RunContext& run) {
  const Parameter& weight = *node.attrs<Attrs>().weight;
  const ValueType& dy = run.type(node.inputs.back());
  const size_t in = weight.cols(), out = weight.rows();
  const float* from = run.f32(node.inputs.back());
  const float* sum = node.inputs.size() == 2 ? run.f32(node.inputs[0]) : nullptr;
  float* dx = run.f32(node.outputs[0]);
  const size_t row_bytes = weight.value.bytes() / out;
  const size_t workers = std::min(run.pool().size(), dy.rows());
  run.pool().run([&](size_t worker) {
    if (worker >= workers) return;
    const size_t begin = dy.rows() * worker / workers, end = dy.rows() * (worker + 1) / workers;
    float* to = dx + begin * in;
    if (sum != nullptr && sum != dx) std::memcpy(to, sum + begin * in, (end - begin) * in * sizeof(float));
    auto* rows = reinterpret_cast<float*>(run.scratch(node, worker));
    for (size_t r = 0; r < out; r += kWeightRows) {
      const size_t count = std::min(kWeightRows, out - r);
      kernels::to_float(weight.value.dtype(), weight.value.raw() + r * row_bytes, rows, count * in);
      kernels::gemm({end - begin,
                     in,
                     count,
                     {from + begin * out + r, out},
                     {rows, in},
                     to,
                     in,
                     sum != nullptr || r > 0});
    }
  });
}

}  // namespace

extern const OpType kMatmulDxOp;
extern const OpType kMatmulDxAddOp;
const OpType kMatmulDxOp{"matmul_dx", infer, cost, scratch, -1, forward};
const OpType kMatmulDxAddOp{"matmul_dx_add", infer, cost, scratch, 0, forward};

ValueId matmul_dx(Graph& g, ValueId dy, const Parameter& weight, ValueId sum, std::string name) {
  auto attrs = std::make_shared<Attrs>(Attrs{&weight});
  if (!sum.valid()) return g.add(kMatmulDxOp, {dy}, std::move(attrs), std::move(name))[0];
  return g.add(kMatmulDxAddOp, {sum, dy}, std::move(attrs), std::move(name))[0];
}

}  // namespace butterfly::graph
