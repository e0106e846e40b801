// Max and average pooling of images [items, height, width, channels].
#include "kernels/pool2d/pool2d.h"
#include "graph/ops/grad_ops.h"

namespace butterfly::graph {
namespace {

using kernels::Pool2d;

ValueType image_type(const Pool2d& p, Elem elem) {
  return {elem,
          {static_cast<int64_t>(p.batch), static_cast<int64_t>(p.out_h()), static_cast<int64_t>(p.out_w()),
           static_cast<int64_t>(p.channels)}};
}

void check(const Graph& g, const Node& node) {
  const Pool2d& p = node.attrs<Pool2d>();
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  expect_equal(node, "axes of the image batch", 4, g.type(node.inputs[0]).shape.rank());
  if (p.out_h() == 0 || p.out_w() == 0)
    fail(Errc::kInvalidArgument, "[{}] {}: a window of {} x {} does not fit an image of {} x {}",
         node.op->name, node.name, p.kernel_h, p.kernel_w, p.in_h, p.in_w);
}

std::vector<ValueType> infer_max(const Graph& g, const Node& node) {
  check(g, node);
  const Pool2d& p = node.attrs<Pool2d>();
  return {image_type(p, Elem::kF32), image_type(p, Elem::kU16)};
}

std::vector<ValueType> infer_avg(const Graph& g, const Node& node) {
  check(g, node);
  return {image_type(node.attrs<Pool2d>(), Elem::kF32)};
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  const Pool2d& p = node.attrs<Pool2d>();
  return {.flops = p.y_count() * p.kernel_h * p.kernel_w, .activation_bytes = value_bytes(g, node)};
}

uint16_t* taps_of(const RunContext& run, ValueId value) {
  return reinterpret_cast<uint16_t*>(run.raw(value));
}

void forward_max(const Node& node, const RunContext& run) {
  kernels::max_pool2d_forward(node.attrs<Pool2d>(), run.f32(node.inputs[0]), run.f32(node.outputs[0]),
                              taps_of(run, node.outputs[1]), run.pool());
}

void forward_avg(const Node& node, const RunContext& run) {
  kernels::avg_pool2d_forward(node.attrs<Pool2d>(), run.f32(node.inputs[0]), run.f32(node.outputs[0]),
                              run.pool());
}

std::vector<ValueType> infer_grad(const Graph&, const Node& node) {
  const Pool2d& p = node.attrs<Pool2d>();
  return {{Elem::kF32,
           {static_cast<int64_t>(p.batch), static_cast<int64_t>(p.in_h), static_cast<int64_t>(p.in_w),
            static_cast<int64_t>(p.channels)}}};
}

void forward_max_grad(const Node& node, const RunContext& run) {
  kernels::max_pool2d_backward(node.attrs<Pool2d>(), run.f32(node.inputs[0]), taps_of(run, node.inputs[1]),
                               run.f32(node.outputs[0]), run.pool());
}

void forward_avg_grad(const Node& node, const RunContext& run) {
  kernels::avg_pool2d_backward(node.attrs<Pool2d>(), run.f32(node.inputs[0]), run.f32(node.outputs[0]),
                               run.pool());
}

void backward_max(GradientBuilder& b, const Node& node);
void backward_avg(GradientBuilder& b, const Node& node);

}  // namespace

extern const OpType kMaxPool2dOp;
extern const OpType kMaxPool2dGradOp;
extern const OpType kAvgPool2dOp;
extern const OpType kAvgPool2dGradOp;
const OpType kMaxPool2dOp{"max_pool2d", infer_max, cost, nullptr, -1, forward_max, nullptr, backward_max};
const OpType kMaxPool2dGradOp{"max_pool2d_grad", infer_grad, cost, nullptr, -1, forward_max_grad};
const OpType kAvgPool2dOp{"avg_pool2d", infer_avg, cost, nullptr, -1, forward_avg, nullptr, backward_avg};
const OpType kAvgPool2dGradOp{"avg_pool2d_grad", infer_grad, cost, nullptr, -1, forward_avg_grad};

namespace {

void backward_max(GradientBuilder& b, const Node& node) {
  const ValueId x = node.inputs[0];
  if (!b.wants(x)) return;
  Graph& g = b.graph();
  ValueId dy = b.of(node.outputs[0]);
  // A gradient reaches a pixel only through windows whose largest value is the pixel's own. So where a relu
  // made x and nobody else reads it, its zeros can be set here, on the few values of the result instead of
  // all of x, and the bits are the same.
  const int32_t producer = g.values()[x.index].producer;
  if (producer >= 0 && b.read_once(x) && ends_with_relu(g.nodes()[static_cast<size_t>(producer)])) {
    dy = relu_grad(g, node.outputs[0], dy, node.name + ".relu_grad");
    b.set_past_relu(x);
  }
  b.add(x, g.add(kMaxPool2dGradOp, {dy, node.outputs[1]}, node.attributes, node.name + ".grad")[0]);
}

void backward_avg(GradientBuilder& b, const Node& node) {
  if (b.wants(node.inputs[0]))
    b.add(node.inputs[0],
          b.graph().add(kAvgPool2dGradOp, {b.of(node.outputs[0])}, node.attributes, node.name + ".grad")[0]);
}

std::shared_ptr<Pool2d> sized(const Graph& g, ValueId x, const Pool2d& pool) {
  auto attrs = std::make_shared<Pool2d>(pool);
  const Shape& shape = g.type(x).shape;
  if (shape.rank() == 4) {
    attrs->batch = static_cast<size_t>(shape[0]);
    attrs->in_h = static_cast<size_t>(shape[1]);
    attrs->in_w = static_cast<size_t>(shape[2]);
    attrs->channels = static_cast<size_t>(shape[3]);
  }
  return attrs;
}

}  // namespace

ValueId max_pool2d(Graph& g, ValueId x, const kernels::Pool2d& pool, std::string name) {
  return g.add(kMaxPool2dOp, {x}, sized(g, x, pool), std::move(name))[0];
}

ValueId avg_pool2d(Graph& g, ValueId x, const kernels::Pool2d& pool, std::string name) {
  return g.add(kAvgPool2dOp, {x}, sized(g, x, pool), std::move(name))[0];
}

}  // namespace butterfly::graph
