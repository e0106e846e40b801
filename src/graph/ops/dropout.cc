// Dropout by counter: whether a value is kept is a function of (key of the run, node, index), so the backward
// pass draws the same again and nothing is stored.
#include <algorithm>
#include <array>

#include "base/rng.h"
#include "graph/ops/grad_ops.h"

namespace butterfly::graph {
namespace {

struct Attrs {
  float rate;
  uint32_t stream;  // one per layer
};

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const float rate = node.attrs<Attrs>().rate;
  if (!(rate >= 0 && rate < 1))
    fail(Errc::kInvalidArgument, "[dropout] {}: expected a rate in [0, 1), found {}", node.name, rate);
  expect_elem(g, node, node.inputs[1], Elem::kI32);
  expect_equal(node, "words of the key", 2, g.type(node.inputs[1]).rows());
  return same_as_first(g, node);
}

// Ten rounds of the generator for four values.
Cost cost(const Graph& g, const Node& node, const CostContext&) { return elementwise_cost(g, node, 20); }

void forward(const Node& node, const RunContext& run) {
  const Attrs& attrs = node.attrs<Attrs>();
  const ValueType& type = run.type(node.inputs[0]);
  const size_t count = type.rows() * type.cols();
  const float* x = run.f32(node.inputs[0]);
  float* out = run.f32(node.outputs[0]);
  const int32_t* words = run.i32(node.inputs[1]);
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(words[0]), static_cast<uint32_t>(words[1])};
  const auto threshold = static_cast<uint32_t>(attrs.rate * 0x1p24f);  // of 24 random bits
  const float scale = 1.0f / (1.0f - attrs.rate);
  run.for_rows((count + 3) / 4, 4 * 8, [&](size_t begin, size_t end) {
    for (size_t block = begin; block < end; ++block) {
      const auto bits = philox(
          {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), attrs.stream, 0x64726f70u}, key);
      for (size_t i = 4 * block; i < std::min(count, 4 * block + 4); ++i)
        out[i] = bits[i % 4] >> 8 >= threshold ? x[i] * scale : 0.0f;
    }
  });
}

void backward(GradientBuilder& b, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  if (b.wants(node.inputs[0]))
    b.add(node.inputs[0], dropout(b.graph(), b.of(node.outputs[0]), node.inputs[1], attrs.rate, attrs.stream,
                                  node.name + ".grad"));
}

}  // namespace

extern const OpType kDropoutOp;
const OpType kDropoutOp{"dropout", infer, cost, nullptr, 0, forward, nullptr, backward};

ValueId dropout(Graph& g, ValueId x, ValueId key, float rate, uint32_t stream, std::string name) {
  return g.add(kDropoutOp, {x, key}, std::make_shared<Attrs>(Attrs{rate, stream}), std::move(name))[0];
}

}  // namespace butterfly::graph
