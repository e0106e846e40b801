// Mamba-2's recurrence over the rows of each sequence: kernels/recurrent/selective_state.h has it.
//
// Of a head: step = softplus(dt + bias), decay = exp(step * a). The state of a sequence is one matrix for
// each head.
#include <algorithm>

#include "graph/ops/op_util.h"
#include "graph/ops/state_walk.h"
#include "kernels/math/math.h"
#include "kernels/recurrent/selective_state.h"

namespace butterfly::graph {
namespace {

using kernels::SelectiveToken;

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const auto& shape = node.attrs<SelectiveStateShape>();
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  expect_equal(node, "columns of inputs and groups", shape.columns(), g.type(node.inputs[0]).cols());
  expect_equal(node, "columns of steps", shape.heads, g.type(node.inputs[1]).cols());
  if (shape.groups == 0 || shape.groups > shape.heads)
    fail(Errc::kInvalidArgument, "[{}] {}: {} groups of {} heads", node.op->name, node.name, shape.groups,
         shape.heads);
  expect_equal(node, "groups", shape.group_of(shape.heads - 1) + 1, shape.groups);
  expect_equal(node, "values of a head beyond whole panels", 0, shape.head_dim % kernels::kSelectivePanel);
  return {floats(g.type(node.inputs[0]).rows(), shape.heads * shape.head_dim)};
}

// Fading, an outer product and a product of a matrix and a vector.
Cost cost(const Graph& g, const Node& node, const CostContext&) {
  const auto& shape = node.attrs<SelectiveStateShape>();
  const uint64_t rows = g.type(node.inputs[0]).rows(), state = shape.heads * shape.head_dim * shape.state_dim;
  return {.flops = 5 * rows * state,
          .activation_bytes = value_bytes(g, node),
          .kv_bytes = state_traffic(rows, state)};
}

size_t scratch(const Graph&, const Node& node) {
  const auto& shape = node.attrs<SelectiveStateShape>();
  return shape.head_dim * shape.state_dim * sizeof(float);
}

// One head of one run of rows.
class HeadWalk {
 public:
  HeadWalk(const Node& node, const RunContext& run, const StateWalk& walk, size_t head)
      : shape_(node.attrs<SelectiveStateShape>()),
        walk_(walk),
        head_(head),
        matrix_{.state_dim = shape_.state_dim,
                .head_dim = shape_.head_dim,
                .skip = shape_.skip->value.data<float>()[head]},
        rows_(run.f32(node.inputs[0])),
        steps_(run.f32(node.inputs[1])),
        out_(run.f32(node.outputs[0])) {}

  void run(float* spare) {
    carry_state(
        walk_, spare, [&](uint32_t page) { return matrix(page); },
        [&](const float* from, float* to, size_t begin, size_t end) { step(from, to, begin, end); });
    for (size_t i = walk_.run().certain; i < walk_.run().rows; ++i) remember(i);
  }

 private:
  float* matrix(uint32_t page) const {
    return walk_.state(shape_.place, page) + head_ * matrix_.state_floats();
  }
  float* guess(size_t index) const {
    return walk_.guess(shape_.place, index) + head_ * shape_.guess_floats_per_head();
  }

  // Rows [begin, end), at most a block of them.
  void step(const float* from, float* to, size_t begin, size_t end) {
    SelectiveToken tokens[kernels::kKvPage];
    for (size_t i = begin; i < end; ++i) tokens[i - begin] = token(i);
    kernels::selective_state(matrix_, from, to, tokens, end - begin);
  }

  SelectiveToken token(size_t index) const {
    const size_t replayed = walk_.run().replayed;
    if (index < replayed) {
      const float* kept = guess(index);  // b, x, step
      return stepped(kept, kept, kept + shape_.state_dim, nullptr, kept[shape_.state_dim + shape_.head_dim]);
    }
    const size_t row = walk_.run().first_row + index - replayed;
    const size_t inner = shape_.heads * shape_.head_dim;
    const float* x = rows_ + row * shape_.columns();
    const float* b = x + inner + shape_.group_of(head_) * shape_.state_dim;
    return stepped(b, b + shape_.groups * shape_.state_dim, x + head_ * shape_.head_dim,
                   out_ + row * inner + head_ * shape_.head_dim, steps_[row * shape_.heads + head_]);
  }
  SelectiveToken stepped(const float* b, const float* c, const float* x, float* out, float step) const {
    const float a = shape_.a->value.data<float>()[head_], bias = shape_.dt->value.data<float>()[head_];
    const float dt = kernels::softplus_f32(step + bias);
    return {b, c, x, out, kernels::exp_f32(dt * a), dt};
  }

  // What token() will want of new row `index`, a guess, when it was right.
  void remember(size_t index) {
    const StateRun& rows = walk_.run();
    const SelectiveToken of = token(rows.replayed + index);
    float* kept = guess(index - rows.certain);
    std::copy_n(of.b, shape_.state_dim, kept);
    std::copy_n(of.x, shape_.head_dim, kept + shape_.state_dim);
    kept[shape_.state_dim + shape_.head_dim] = steps_[(rows.first_row + index) * shape_.heads + head_];
  }

  const SelectiveStateShape& shape_;
  const StateWalk& walk_;
  const size_t head_;
  const kernels::SelectiveShape matrix_;
  const float *rows_, *steps_;
  float* out_;
};

void forward(const Node& node, const RunContext& run) {
  const auto& shape = node.attrs<SelectiveStateShape>();
  for_each_state_unit(run, shape.place, shape.heads, [&](const StateWalk& walk, size_t head, size_t worker) {
    HeadWalk(node, run, walk, head).run(reinterpret_cast<float*>(run.scratch(node, worker)));
  });
}

}  // namespace

extern const OpType kSelectiveStateOp;
const OpType kSelectiveStateOp{"selective_state", infer, cost, scratch, -1, forward};

ValueId selective_state(Graph& g, ValueId rows, ValueId steps, const SelectiveStateShape& shape,
                        std::string name) {
  return g.add(kSelectiveStateOp, {rows, steps}, std::make_shared<SelectiveStateShape>(shape),
               std::move(name))[0];
}

}  // namespace butterfly::graph
