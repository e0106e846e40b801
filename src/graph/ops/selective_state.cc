// Mamba-2's recurrence over the rows of each sequence: kernels/recurrent/selective_state.h has it.
//
// recurrent_rows.h has the steps of a head. The state of a sequence is one matrix for each head.
#include <algorithm>

#include "graph/ops/recurrent_rows.h"
#include "graph/ops/state_walk.h"

namespace butterfly::graph {
namespace {

using kernels::SelectiveToken;

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  return {selective_type(g, node, node.attrs<SelectiveStateShape>())};
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
        of_(shape_, head),
        matrix_(of_.matrix()),
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
      return of_.stepped(kept, kept, kept + shape_.state_dim, nullptr,
                         kept[shape_.state_dim + shape_.head_dim]);
    }
    return of_.token(rows_, steps_, out_, walk_.run().first_row + index - replayed);
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
  const SelectiveHead of_;
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
