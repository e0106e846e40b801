// The gated delta rule over the rows of each sequence: kernels/recurrent/gated_delta.h has the recurrence.
//
// recurrent_rows.h has the gates of a head. The state of a sequence is one matrix for each value head.
#include <algorithm>
#include <cstring>

#include "graph/ops/recurrent_rows.h"
#include "graph/ops/state_walk.h"

namespace butterfly::graph {
namespace {

using kernels::DeltaToken;

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  return {delta_type(g, node, node.attrs<GatedDeltaShape>())};
}

// Four products of a matrix and a vector, and the fading.
Cost cost(const Graph& g, const Node& node, const CostContext&) {
  const auto& shape = node.attrs<GatedDeltaShape>();
  const uint64_t rows = g.type(node.inputs[0]).rows(),
                 state = shape.value_heads * shape.key_dim * shape.value_dim;
  return {.flops = 8 * rows * state,
          .activation_bytes = value_bytes(g, node),
          .kv_bytes = state_traffic(rows, state)};
}

size_t scratch(const Graph&, const Node& node) {
  const auto& shape = node.attrs<GatedDeltaShape>();
  return shape.key_dim * shape.value_dim * sizeof(float);
}

// One value head of one run of rows.
class HeadWalk {
 public:
  HeadWalk(const Node& node, const RunContext& run, const StateWalk& walk, size_t head)
      : shape_(node.attrs<GatedDeltaShape>()),
        walk_(walk),
        head_(head),
        of_(shape_, head),
        matrix_(of_.matrix()),
        qkv_(run.f32(node.inputs[0])),
        alpha_(run.f32(node.inputs[1])),
        beta_(run.f32(node.inputs[2])),
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
    DeltaToken tokens[kernels::kKvPage];
    for (size_t i = begin; i < end; ++i) tokens[i - begin] = token(i);
    kernels::gated_delta(matrix_, from, to, tokens, end - begin);
  }

  DeltaToken token(size_t index) const {
    const size_t replayed = walk_.run().replayed;
    if (index < replayed) {
      const float* kept = guess(index);  // key, value, alpha, beta
      const float* gates = kept + shape_.key_dim + shape_.value_dim;
      return of_.gated(kept, kept, kept + shape_.key_dim, nullptr, gates[0], gates[1]);
    }
    return of_.token(qkv_, alpha_, beta_, out_, walk_.run().first_row + index - replayed);
  }

  // What token() will want of new row `index`, a guess, when it was right.
  void remember(size_t index) {
    const StateRun& rows = walk_.run();
    const DeltaToken of = token(rows.replayed + index);
    float* kept = guess(index - rows.certain);
    std::copy_n(of.k, shape_.key_dim, kept);
    std::copy_n(of.v, shape_.value_dim, kept + shape_.key_dim);
    const size_t at = (rows.first_row + index) * shape_.value_heads + head_;
    kept[shape_.key_dim + shape_.value_dim] = alpha_[at];
    kept[shape_.key_dim + shape_.value_dim + 1] = beta_[at];
  }

  const GatedDeltaShape& shape_;
  const StateWalk& walk_;
  const size_t head_;
  const DeltaHead of_;
  const kernels::DeltaShape matrix_;
  const float *qkv_, *alpha_, *beta_;
  float* out_;
};

void forward(const Node& node, const RunContext& run) {
  const auto& shape = node.attrs<GatedDeltaShape>();
  for_each_state_unit(
      run, shape.place, shape.value_heads, [&](const StateWalk& walk, size_t head, size_t worker) {
        HeadWalk(node, run, walk, head).run(reinterpret_cast<float*>(run.scratch(node, worker)));
      });
}

}  // namespace

extern const OpType kGatedDeltaOp;
const OpType kGatedDeltaOp{"gated_delta", infer, cost, scratch, -1, forward};

ValueId gated_delta(Graph& g, ValueId qkv, ValueId alpha, ValueId beta, const GatedDeltaShape& shape,
                    std::string name) {
  return g.add(kGatedDeltaOp, {qkv, alpha, beta}, std::make_shared<GatedDeltaShape>(shape),
               std::move(name))[0];
}

}  // namespace butterfly::graph
