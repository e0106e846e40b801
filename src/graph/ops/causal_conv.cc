// Depthwise convolution over time. The state of a sequence is its last (taps - 1) rows.
#include <algorithm>
#include <cstring>

#include "graph/ops/op_util.h"
#include "graph/ops/state_walk.h"
#include "kernels/recurrent/causal_conv.h"

namespace butterfly::graph {
namespace {

constexpr size_t kChannels = 256;  // of one unit of work
constexpr size_t kOldRowsMax = kernels::kConvTapsMax - 1 + kGuessesMax;

struct Attrs {
  const Parameter* weight;  // [taps, channels]
  const Parameter* bias;    // [channels]; null: none
  StatePlace place;
  bool silu;
  size_t taps() const { return static_cast<size_t>(weight->value.size(0)); }
};

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const auto& attrs = node.attrs<Attrs>();
  expect_equal(node, "columns", static_cast<size_t>(attrs.weight->value.size(1)),
               g.type(node.inputs[0]).cols());
  if (attrs.bias != nullptr)
    expect_equal(node, "biases", g.type(node.inputs[0]).cols(),
                 static_cast<size_t>(attrs.bias->value.count()));
  if (attrs.taps() == 0 || attrs.taps() > kernels::kConvTapsMax)
    fail(Errc::kInvalidArgument, "[{}] {}: expected 1 to {} taps, found {}", node.op->name, node.name,
         kernels::kConvTapsMax, attrs.taps());
  return same_as_first(g, node);
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  const auto& attrs = node.attrs<Attrs>();
  Cost cost = elementwise_cost(g, node, 2 * attrs.taps() + (attrs.silu ? 6 : 0));
  const ValueType& x = g.type(node.inputs[0]);
  cost.weight_bytes = attrs.weight->value.bytes();
  cost.kv_bytes = state_traffic(x.rows(), (attrs.taps() - 1) * x.cols());
  return cost;
}

size_t scratch(const Graph&, const Node&) { return kOldRowsMax * kChannels * sizeof(float); }

// Channels [begin, end) of one run of rows.
void convolve(const Node& node, const RunContext& run, const StateWalk& walk, size_t begin, size_t end,
              float* old) {
  const auto& attrs = node.attrs<Attrs>();
  const StateRun& rows = walk.run();
  const size_t taps = attrs.taps(), cols = run.type(node.inputs[0]).cols(),
               bytes = (end - begin) * sizeof(float);
  const float* x = run.f32(node.inputs[0]) + rows.first_row * cols + begin;
  // All rows that matter, in order: the state's, right guesses of the last step, the new ones. The old ones
  // are copied first, since their places are written below.
  const size_t old_rows = taps - 1 + rows.replayed;
  for (size_t i = 0; i < old_rows; ++i) {
    const float* from =
        i + 1 < taps ? walk.from(attrs.place) + i * cols : walk.guess(attrs.place, i + 1 - taps);
    if (i + 1 < taps && rows.from == kNoPage) {
      std::memset(old + i * kChannels, 0, bytes);
    } else {
      std::memcpy(old + i * kChannels, from + begin, bytes);
    }
  }
  const auto row = [&](size_t i) { return i < old_rows ? old + i * kChannels : x + (i - old_rows) * cols; };

  const kernels::CausalConv conv{
      .taps = taps,
      .weights = attrs.weight->value.data<float>() + begin,
      .weight_stride = cols,
      .bias = attrs.bias == nullptr ? nullptr : attrs.bias->value.data<float>() + begin,
      .silu = attrs.silu};
  float* out = run.f32(node.outputs[0]) + rows.first_row * cols + begin;
  for (size_t i = 0; i < rows.rows; ++i) {
    const float* seen[kernels::kConvTapsMax];
    for (size_t j = 0; j < taps; ++j) seen[j] = row(rows.replayed + i + j);
    kernels::causal_conv(conv, seen, out + i * cols, end - begin);
  }
  walk.for_each_kept([&](size_t passed, uint32_t page) {
    for (size_t j = 0; j + 1 < taps; ++j)
      std::memcpy(walk.state(attrs.place, page) + j * cols + begin, row(passed + j), bytes);
  });
  for (size_t i = rows.certain; i < rows.rows; ++i)
    std::memcpy(walk.guess(attrs.place, i - rows.certain) + begin, x + i * cols, bytes);
}

void forward(const Node& node, const RunContext& run) {
  const auto& attrs = node.attrs<Attrs>();
  const size_t cols = run.type(node.inputs[0]).cols(), blocks = (cols + kChannels - 1) / kChannels;
  for_each_state_unit(run, attrs.place, blocks, [&](const StateWalk& walk, size_t block, size_t worker) {
    convolve(node, run, walk, block * kChannels, std::min(cols, (block + 1) * kChannels),
             reinterpret_cast<float*>(run.scratch(node, worker)));
  });
}

}  // namespace

extern const OpType kCausalConvOp;
const OpType kCausalConvOp{"causal_conv", infer, cost, scratch, -1, forward};

ValueId causal_conv(Graph& g, ValueId x, const Parameter& weight, const Parameter& bias,
                    const StatePlace& place, bool silu, std::string name) {
  const Attrs attrs{&weight, bias ? &bias : nullptr, place, silu};
  return g.add(kCausalConvOp, {x}, std::make_shared<Attrs>(attrs), std::move(name))[0];
}

}  // namespace butterfly::graph
