// Depthwise convolution over time within the sequences of a training batch, and backwards: that is the same
// convolution of the slopes, with time reversed.
#include <algorithm>
#include <cstring>

#include "graph/gradients.h"
#include "graph/ops/documents.h"
#include "graph/ops/op_util.h"
#include "kernels/elementwise/activation_backward.h"
#include "kernels/recurrent/causal_conv.h"

namespace butterfly::graph {
namespace {

constexpr size_t kChannels = 256;  // of one unit of work
constexpr size_t kPositions = 1;   // input of the forward pass

struct Attrs {
  const Parameter* weight;  // [taps, channels]
  const Parameter* bias;    // [channels]; null: none
  bool silu;
  size_t length;
  size_t taps() const { return static_cast<size_t>(weight->value.size(0)); }
  kernels::CausalConv conv(size_t channel, size_t channels) const {
    return {.taps = taps(),
            .weights = weight->value.data<float>() + channel,
            .weight_stride = channels,
            .bias = bias == nullptr ? nullptr : bias->value.data<float>() + channel,
            .silu = silu};
  }
};

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const auto& attrs = node.attrs<Attrs>();
  const ValueType& x = g.type(node.inputs[0]);
  expect_equal(node, "columns", static_cast<size_t>(attrs.weight->value.size(1)), x.cols());
  if (attrs.bias != nullptr)
    expect_equal(node, "biases", x.cols(), static_cast<size_t>(attrs.bias->value.count()));
  expect_equal(node, "rows beyond whole sequences", 0, attrs.length == 0 ? 1 : x.rows() % attrs.length);
  if (attrs.taps() == 0 || attrs.taps() > kernels::kConvTapsMax)
    fail(Errc::kInvalidArgument, "[{}] {}: expected 1 to {} taps, found {}", node.op->name, node.name,
         kernels::kConvTapsMax, attrs.taps());
  return same_as_first(g, node);
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  const auto& attrs = node.attrs<Attrs>();
  return elementwise_cost(g, node, 2 * attrs.taps() + (attrs.silu ? 6 : 0));
}

// fn(document, first channel, channels, worker) for each block of channels of each sequence.
template <typename F>
void each_block(const Node& node, const RunContext& run, size_t positions_input, F&& fn) {
  const auto& attrs = node.attrs<Attrs>();
  const ValueType& type = run.type(node.inputs[0]);
  const int32_t* positions =
      node.inputs.size() > positions_input ? run.i32(node.inputs[positions_input]) : nullptr;
  const size_t cols = type.cols(), blocks = (cols + kChannels - 1) / kChannels;
  const size_t units = type.rows() / attrs.length * blocks, workers = std::min(units, run.pool().size());
  run.pool().run([&](size_t worker) {
    for (size_t unit = worker; worker < workers && unit < units; unit += workers) {
      const size_t begin = unit % blocks * kChannels;
      each_document(attrs.length, positions, unit / blocks * attrs.length, [&](const Document& part) {
        fn(part, begin, std::min(kChannels, cols - begin), worker);
      });
    }
  });
}

// `conv` of the rows of a document, `stride` floats apart; those before it are zeros.
void convolve(const kernels::CausalConv& conv, const float* x, size_t stride, const Document& part,
              float* out, size_t out_stride, size_t count) {
  static constexpr float kZeros[kChannels] = {};
  for (size_t i = 0; i < part.length; ++i) {
    const float* seen[kernels::kConvTapsMax];
    for (size_t j = 0; j < conv.taps; ++j)
      seen[j] = i + j + 1 < conv.taps ? kZeros : x + (i + j + 1 - conv.taps) * stride;
    kernels::causal_conv(conv, seen, out + i * out_stride, count);
  }
}

void forward(const Node& node, const RunContext& run) {
  const auto& attrs = node.attrs<Attrs>();
  const size_t cols = run.type(node.inputs[0]).cols();
  each_block(node, run, kPositions, [&](const Document& part, size_t channel, size_t count, size_t) {
    const size_t at = part.row * cols + channel;
    convolve(attrs.conv(channel, cols), run.f32(node.inputs[0]) + at, cols, part,
             run.f32(node.outputs[0]) + at, cols, count);
  });
}

Cost cost_grad(const Graph& g, const Node& node, const CostContext&) {
  const auto& attrs = node.attrs<Attrs>();
  return elementwise_cost(g, node, (attrs.silu ? 4 : 2) * attrs.taps() + (attrs.silu ? 16 : 0));
}

// Slopes of what the convolution gives before silu.
size_t scratch_grad(const Graph&, const Node& node) {
  return node.attrs<Attrs>().length * kChannels * sizeof(float);
}

// Inputs: x, the gradient of the result, positions.
void forward_grad(const Node& node, const RunContext& run) {
  const auto& attrs = node.attrs<Attrs>();
  const size_t cols = run.type(node.inputs[0]).cols(), taps = attrs.taps();
  each_block(
      node, run, kPositions + 1, [&](const Document& part, size_t channel, size_t count, size_t worker) {
        const size_t at = part.row * cols + channel;
        kernels::CausalConv conv = attrs.conv(channel, cols);
        conv.silu = false;
        const float* slopes = run.f32(node.inputs[1]) + at;
        size_t stride = cols;
        if (attrs.silu) {
          auto* before = reinterpret_cast<float*>(run.scratch(node, worker));
          convolve(conv, run.f32(node.inputs[0]) + at, cols, part, before, kChannels, count);
          for (size_t i = 0; i < part.length; ++i)
            kernels::silu_backward(before + i * kChannels, slopes + i * cols, before + i * kChannels, count);
          slopes = before;
          stride = kChannels;
        }
        // A row met the weight of tap j in the row taps - 1 - j behind it.
        static constexpr float kZeros[kChannels] = {};
        conv.bias = nullptr;
        for (size_t i = 0; i < part.length; ++i) {
          const float* met[kernels::kConvTapsMax];
          for (size_t j = 0; j < taps; ++j) {
            const size_t row = i + taps - 1 - j;
            met[j] = row < part.length ? slopes + row * stride : kZeros;
          }
          kernels::causal_conv(conv, met, run.f32(node.outputs[0]) + at + i * cols, count);
        }
      });
}

void backward(GradientBuilder& b, const Node& node);

}  // namespace

extern const OpType kSequenceConvOp;
extern const OpType kSequenceConvGradOp;
const OpType kSequenceConvOp{"sequence_conv", infer, cost, nullptr, -1, forward, nullptr, backward};
const OpType kSequenceConvGradOp{"sequence_conv_grad", infer, cost_grad, scratch_grad, -1, forward_grad};

namespace {

// Weights and bias are frozen.
void backward(GradientBuilder& b, const Node& node) {
  std::vector<ValueId> inputs{node.inputs[0], b.of(node.outputs[0])};
  if (node.inputs.size() > kPositions) inputs.push_back(node.inputs[kPositions]);
  b.add(node.inputs[0], b.graph().add(kSequenceConvGradOp, inputs, node.attributes, node.name + ".grad")[0]);
}

}  // namespace

ValueId sequence_conv(Graph& g, ValueId x, const Parameter& weight, const Parameter& bias, bool silu,
                      size_t length, std::string name, ValueId positions) {
  std::vector<ValueId> inputs{x};
  if (positions.valid()) inputs.push_back(positions);
  const Attrs attrs{&weight, bias ? &bias : nullptr, silu, length};
  return g.add(kSequenceConvOp, inputs, std::make_shared<Attrs>(attrs), std::move(name))[0];
}

}  // namespace butterfly::graph
