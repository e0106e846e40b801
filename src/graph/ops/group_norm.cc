// Group normalisation: mean and variance over all positions and a group of channels of one item. Channels are
// the last axis, so everything is sums and multiples of rows of channels.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/ops/grad_ops.h"
#include "kernels/elementwise/elementwise.h"

namespace butterfly::graph {
namespace {

// Positions are summed in blocks, so that the error does not grow with their number.
constexpr size_t kBlock = 256;

struct Attrs {
  const Parameter* weight;
  const Parameter* bias;
  size_t groups;
  float eps;
  size_t channels() const { return static_cast<size_t>(weight->value.count()); }
};

// Rows of scratch, each of one float per channel.
enum Row : size_t { kMean, kUnit, kSum, kSquare, kBlockSum, kPart, kRows };

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  const ValueType& x = g.type(node.inputs[0]);
  expect_equal(node, "channels", static_cast<size_t>(x.shape.back()), attrs.channels());
  expect_equal(node, "bias values", attrs.channels(), static_cast<size_t>(attrs.bias->value.count()));
  expect_equal(node, "channels beyond whole groups", 0,
               attrs.groups == 0 ? 1 : attrs.channels() % attrs.groups);
  return same_as_first(g, node);
}

Cost cost(const Graph& g, const Node& node, const CostContext&) { return elementwise_cost(g, node, 8); }

size_t scratch(const Graph&, const Node& node) {
  return kRows * node.attrs<Attrs>().channels() * sizeof(float);
}

// One item: x [positions, channels].
class Item {
 public:
  Item(const Attrs& attrs, const float* x, size_t positions, float* scratch_rows)
      : attrs_(attrs), x_(x), positions_(positions), channels_(attrs.channels()), rows_(scratch_rows) {
    const auto n = static_cast<float>(positions * channels_ / attrs.groups);
    sum_rows(row(kSum), [&](size_t at, float* to) { std::memcpy(to, x_ + at, bytes()); });
    spread(row(kSum), row(kMean), [&](float sum) { return sum / n; });
    sum_rows(row(kSum), [&](size_t at, float* to) {
      kernels::sub(x_ + at, row(kMean), to, channels_);
      kernels::mul(to, to, to, channels_);
    });
    spread(row(kSum), row(kUnit), [&](float squares) { return 1.0f / std::sqrt(squares / n + attrs.eps); });
  }

  void forward(float* y) {
    float* factor = row(kSum);
    float* shift = row(kSquare);
    kernels::mul(row(kUnit), attrs_.weight->value.data<float>(), factor, channels_);
    kernels::mul(row(kMean), factor, shift, channels_);
    kernels::sub(attrs_.bias->value.data<float>(), shift, shift, channels_);
    for (size_t at = 0; at < positions_ * channels_; at += channels_) {
      kernels::mul(x_ + at, factor, y + at, channels_);
      kernels::add(y + at, shift, y + at, channels_);
    }
  }

  // dx = dy k1 + x k2 + k3, and the item's part of the gradients of weight and bias.
  void backward(const float* dy, float* dx, float* dweight, float* dbias) {
    const float* weight = attrs_.weight->value.data<float>();
    const auto n = static_cast<float>(positions_ * channels_ / attrs_.groups);
    sum_rows(dbias, [&](size_t at, float* to) { std::memcpy(to, dy + at, bytes()); });
    sum_rows(dweight, [&](size_t at, float* to) {
      kernels::sub(x_ + at, row(kMean), to, channels_);
      kernels::mul(to, row(kUnit), to, channels_);
      kernels::mul(to, dy + at, to, channels_);
    });
    float* a = row(kSum);
    float* b = row(kSquare);
    float* k1 = row(kBlockSum);
    kernels::mul(dbias, weight, k1, channels_);
    spread(k1, a, [&](float sum) { return sum / n; });
    kernels::mul(dweight, weight, k1, channels_);
    spread(k1, b, [&](float sum) { return sum / n; });
    for (size_t c = 0; c < channels_; ++c) {
      const float unit = row(kUnit)[c], mean = row(kMean)[c];
      k1[c] = weight[c] * unit;
      b[c] = -(unit * unit * b[c]);
      a[c] = -(unit * a[c]) - mean * b[c];
    }
    for (size_t at = 0; at < positions_ * channels_; at += channels_) {
      kernels::mul(x_ + at, b, row(kPart), channels_);
      kernels::mul(dy + at, k1, dx + at, channels_);
      kernels::add(dx + at, row(kPart), dx + at, channels_);
      kernels::add(dx + at, a, dx + at, channels_);
    }
  }

 private:
  float* row(Row r) const { return rows_ + r * channels_; }
  size_t bytes() const { return channels_ * sizeof(float); }

  // Sum over the positions of what term(offset, to) writes.
  template <typename F>
  void sum_rows(float* out, F term) {
    std::memset(out, 0, bytes());
    for (size_t first = 0; first < positions_; first += kBlock) {
      term(first * channels_, row(kBlockSum));
      for (size_t p = first + 1; p < std::min(positions_, first + kBlock); ++p) {
        term(p * channels_, row(kPart));
        kernels::add(row(kBlockSum), row(kPart), row(kBlockSum), channels_);
      }
      kernels::add(out, row(kBlockSum), out, channels_);
    }
  }

  // f(sum over the channels of a group) for each channel of the group.
  template <typename F>
  void spread(const float* from, float* to, F f) const {
    const size_t width = channels_ / attrs_.groups;
    for (size_t first = 0; first < channels_; first += width) {
      float sum = 0;
      for (size_t c = first; c < first + width; ++c) sum += from[c];
      std::fill(to + first, to + first + width, f(sum));
    }
  }

  const Attrs& attrs_;
  const float* x_;
  size_t positions_, channels_;
  float* rows_;
};

// Threads take whole items.
template <typename F>
void each_item(const Node& node, const RunContext& run, F fn) {
  const Attrs& attrs = node.attrs<Attrs>();
  const ValueType& x = run.type(node.inputs[0]);
  const size_t workers = std::min(run.pool().size(), x.rows());
  run.pool().run([&](size_t worker) {
    for (size_t i = worker; worker < workers && i < x.rows(); i += workers) {
      Item item(attrs, run.f32(node.inputs[0]) + i * x.cols(), x.cols() / attrs.channels(),
                reinterpret_cast<float*>(run.scratch(node, worker)));
      fn(item, i);
    }
  });
}

void forward(const Node& node, const RunContext& run) {
  const size_t cols = run.type(node.inputs[0]).cols();
  each_item(node, run, [&](Item& item, size_t i) { item.forward(run.f32(node.outputs[0]) + i * cols); });
}

// dx, dweight, dbias, and the items' parts of the two.
std::vector<ValueType> infer_grad(const Graph& g, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  const ValueType& x = g.type(node.inputs[0]);
  const ValueType channels{Elem::kF32, {static_cast<int64_t>(attrs.channels())}};
  return {x, channels, channels, floats(x.rows(), 2 * attrs.channels())};
}

Cost cost_grad(const Graph& g, const Node& node, const CostContext&) { return elementwise_cost(g, node, 16); }

void forward_grad(const Node& node, const RunContext& run) {
  const size_t channels = node.attrs<Attrs>().channels();
  const ValueType& x = run.type(node.inputs[0]);
  float* parts = run.f32(node.outputs[3]);
  each_item(node, run, [&](Item& item, size_t i) {
    item.backward(run.f32(node.inputs[1]) + i * x.cols(), run.f32(node.outputs[0]) + i * x.cols(),
                  parts + i * 2 * channels, parts + (i * 2 + 1) * channels);
  });
  for (size_t which = 0; which < 2; ++which) {
    float* out = run.f32(node.outputs[1 + which]);
    std::memcpy(out, parts + which * channels, channels * sizeof(float));
    for (size_t i = 1; i < x.rows(); ++i)
      kernels::add(out, parts + (2 * i + which) * channels, out, channels);
  }
}

std::vector<const Parameter*> parameters(const Node& node) {
  return {node.attrs<Attrs>().weight, node.attrs<Attrs>().bias};
}

void backward(GradientBuilder& b, const Node& node);

}  // namespace

extern const OpType kGroupNormOp;
extern const OpType kGroupNormGradOp;
const OpType kGroupNormOp{"group_norm", infer, cost, scratch, 0, forward, parameters, backward};
const OpType kGroupNormGradOp{"group_norm_grad", infer_grad, cost_grad, scratch, 1, forward_grad};

namespace {

void backward(GradientBuilder& b, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  const auto out = b.graph().add(kGroupNormGradOp, {node.inputs[0], b.of(node.outputs[0])}, node.attributes,
                                 node.name + ".grad");
  if (b.wants(*attrs.weight)) b.add(*attrs.weight, out[1]);
  if (b.wants(*attrs.bias)) b.add(*attrs.bias, out[2]);
  b.add(node.inputs[0], out[0]);
}

}  // namespace

ValueId group_norm(Graph& g, ValueId x, const Parameter& weight, const Parameter& bias, size_t groups,
                   float eps, std::string name) {
  return g.add(kGroupNormOp, {x}, std::make_shared<Attrs>(Attrs{&weight, &bias, groups, eps}),
               std::move(name))[0];
}

}  // namespace butterfly::graph
