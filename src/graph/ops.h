// The operations, as functions that add a node to a graph. One file each in ops/, one row each in
// op_table.cc.
#pragma once
#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "graph/exchange.h"
#include "graph/graph.h"
#include "graph/parameter.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/rope.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/pool2d/pool2d.h"

namespace butterfly::graph {

std::span<const OpType* const> op_table();

// Rows `ids` [n] of a table of any element type, as floats: [n, cols].
ValueId embedding(Graph& g, ValueId ids, const Parameter& table, std::string name);
// Rows `indices` [n] of x [rows, cols], floats or integers.
ValueId select_rows(Graph& g, ValueId x, ValueId indices, std::string name);
ValueId add(Graph& g, ValueId a, ValueId b, std::string name);
// Adds a vector [cols] to every row.
ValueId add_bias(Graph& g, ValueId x, const Parameter& bias, std::string name);
// a + factor * b, rounded once.
ValueId add_scaled(Graph& g, ValueId a, ValueId b, float factor, std::string name);
// Every run of as many columns as there are weights is normalised alone: whole rows, or the heads of a row.
// `groups`: the weights are those of so many runs, each normalised alone.
ValueId rms_norm(Graph& g, ValueId x, const Parameter& weight, float eps, std::string name,
                 size_t groups = 1);
// The bias may be empty.
ValueId layer_norm(Graph& g, ValueId x, const Parameter& weight, const Parameter& bias, float eps,
                   std::string name);
ValueId scale(Graph& g, ValueId x, float factor, std::string name);
// cap * tanh(x / cap)
ValueId soft_cap(Graph& g, ValueId x, float cap, std::string name);
ValueId mul(Graph& g, ValueId a, ValueId b, std::string name);
ValueId relu(Graph& g, ValueId x, std::string name);
ValueId silu(Graph& g, ValueId x, std::string name);
ValueId gelu(Graph& g, ValueId x, std::string name);  // tanh form
// silu(gate) * up
ValueId swiglu(Graph& g, ValueId gate, ValueId up, std::string name);
// kernels/elementwise/activation.h
ValueId swiglu_clamped(Graph& g, ValueId gate, ValueId up, std::string name);
// gelu(gate) * up
ValueId geglu(Graph& g, ValueId gate, ValueId up, std::string name);

// x * W^T for one or several matrices that want the same form of activations: one split over all their
// outputs. `shard_unit`: columns of a unit of logical shards, for a row-parallel product
// (kernels/tiles/shards.h); 0: one chain.
std::vector<ValueId> matmul(Graph& g, ValueId x, std::span<const Parameter* const> weights, std::string name,
                            size_t shard_unit = 0);
// Some neighbouring shards of a row-parallel product whose other columns are elsewhere: [n, subtrees * rows
// of the matrix], one result behind the other for every subtree of `cuts`, which cover the columns of x.
ValueId matmul_subtrees(Graph& g, ValueId x, const Parameter& weight, const kernels::ShardCuts& cuts,
                        std::string name);
// x * W^T + bias with the parameter's plain float values, which may be trained; the bias may be empty.
ValueId linear(Graph& g, ValueId x, const Parameter& weight, const Parameter& bias, std::string name,
               size_t shard_unit = 0);
// Rows in the form that products with `kind` weights read.
ValueId quantize_rows(Graph& g, ValueId x, kernels::ActKind kind, std::string name);

// Where rows go in a mixture of experts. A slot is (row, its s-th best expert); a place is a slot's index
// once slots are sorted by expert.
struct MoeRoute {
  ValueId weights;  // [rows, used], best expert first
  ValueId places;   // [rows, used]: the place of each slot
  ValueId order;    // [rows * used]: the slot at each place
  ValueId begins;   // [experts + 1]: the first place of each expert
  size_t used;
};
// What a router makes of its logits: ops/moe_route.cc.
enum class RouteBy : uint8_t { kSoftmax, kSigmoid, kSoftmaxOfChosen, kSqrtSoftplus };
struct RouteOptions {
  size_t used = 0;  // experts per row
  RouteBy by = RouteBy::kSoftmax;
  bool normalise = true;  // weights are divided by their sum
  float scale = 1;        // of the weights, after that
  size_t groups = 0;      // experts are chosen from the best groups only; 0: from all
  size_t groups_used = 0;
};
// From the router's logits [rows, experts]. `selection_bias` [experts] counts for the choice, not for the
// weights; `expert_scale` [experts] is what the weight of each is multiplied by in the end. Both may be
// empty.
MoeRoute moe_route(Graph& g, ValueId logits, const RouteOptions& options, const Parameter& selection_bias,
                   const Parameter& expert_scale, std::string name);
// The row of every place: [rows * used, cols], of any element type.
ValueId gather_slots(Graph& g, ValueId x, const MoeRoute& route, std::string name);
// Every place times the matrix of its expert, plus its bias, for one or several matrices of one kind. Rows of
// experts that are not here are left as they are.
std::vector<ValueId> expert_matmul(Graph& g, ValueId x, const MoeRoute& route,
                                   std::span<const ExpertParameter* const> weights, std::string name,
                                   size_t shard_unit = 0);
// Heads of columns, each times a matrix of its own: x [n, heads * in], the matrices [out, in] of all heads
// (`first` is not read): [n, heads * out].
ValueId head_matmul(Graph& g, ValueId x, const ExpertParameter& heads, std::string name);
// The weighted sum of each row's slots, best expert first: [rows, cols].
ValueId moe_combine(Graph& g, ValueId y, const MoeRoute& route, std::string name);

// Columns [begin, begin + count) of every row.
ValueId columns(Graph& g, ValueId x, size_t begin, size_t count, std::string name);
// Several ranges, one behind the other.
ValueId columns(Graph& g, ValueId x, std::span<const MemberRange> ranges, std::string name);
// Groups of columns: `first` of a, then `second` of b; and the other way round.
ValueId join_columns(Graph& g, ValueId a, ValueId b, size_t first, size_t second, std::string name);
std::pair<ValueId, ValueId> split_columns(Graph& g, ValueId x, size_t first, size_t second, std::string name);

// A value that the members of a group (graph/exchange.h) compute together.
enum class ExchangeKind : uint8_t {
  kShardSums,   // units are logical shards: what matmul_subtrees() gives, and the tree over all of them
  kExpertRows,  // units are experts: rows at the places of a member's experts
  kColumns,     // units are columns: those that a member has
};
struct ExchangePart {
  ExchangeKind kind;
  ValueId mine;                     // this member's; not read where it owns nothing
  size_t rows, cols;                // of the whole value
  size_t units;                     // in all
  std::vector<MemberRange> owners;  // by member: each unit is somebody's
  ValueId begins = {};              // kExpertRows: MoeRoute::begins
};
// The whole values, [rows, cols] each, in one exchange.
std::vector<ValueId> exchange(Graph& g, std::span<const ExchangePart> parts, size_t self, std::string name);
// What an exchange brings together; none for any other op.
std::span<const ExchangePart> exchange_parts(const Node& node);
// Rows of logits whose columns the members have (`owners`, `cols` in all), [rows, cols] at the first member
// alone. candidates[row] [rows] i32: of that row the first so many are enough, and others may be -infinity;
// 0: all.
ValueId gather_logits(Graph& g, ValueId mine, ValueId candidates, size_t cols,
                      std::vector<MemberRange> owners, size_t self, std::string name);

// Cosines and sines of the rows' positions [n]: [n, rotation_floats]. Shared by all layers.
ValueId rope_rotations(Graph& g, ValueId positions, const kernels::Rope& rope, std::string name);
// Rotates heads of `head_dim` in every row.
ValueId rope(Graph& g, ValueId x, ValueId rotations, kernels::RopeLayout layout, size_t head_dim,
             std::string name);

struct AttentionShape {
  size_t layer;
  size_t heads;
  size_t kv_heads;
  size_t head_dim;
  kernels::AttentionParams params;
  const Parameter* sinks = nullptr;  // AttentionQuery::sink of each head that is here; null: none
  // Where only some query heads are here: those of one KV head in the whole layer (0: heads / kv_heads), and
  // how many of the first KV head's are elsewhere.
  size_t group = 0;
  size_t heads_before = 0;
  // Values are the first so many of each key, and are not apart: without v. 0: they are.
  size_t latent_dim = 0;

  size_t value_dim() const { return latent_dim == 0 ? head_dim : latent_dim; }
  size_t group_size() const { return group == 0 ? heads / kv_heads : group; }
  // Query heads of a KV head, among those that are here.
  MemberRange heads_of(size_t kv_head) const {
    const size_t first = kv_head * group_size(), last = first + group_size();
    return {first < heads_before ? 0 : first - heads_before, std::min(heads, last - heads_before)};
  }
};
// Stores k and v [n, kv_heads * head_dim] in the cache of the run, then attends with q [n, heads * head_dim].
// Without k and v: over the keys and values that the cache's layer has from another one. [n, heads *
// value_dim()].
ValueId cached_attention(Graph& g, ValueId q, ValueId k, ValueId v, const AttentionShape& shape,
                         std::string name);
// Without a cache: rows are sequences of `length`, one behind the other, and a row sees its sequence up to
// itself. With `positions` [n] i32 a sequence may hold several documents, each from a position 0 on, that do
// not see each other. shape.layer is not used.
ValueId causal_attention(Graph& g, ValueId q, ValueId k, ValueId v, const AttentionShape& shape,
                         size_t length, std::string name, ValueId positions = {});

// Where an op has its part of a layer's recurrent state, and of what the layer keeps of a guess: offsets in
// floats (KvLayer).
struct StatePlace {
  size_t layer;
  size_t state_offset;
  size_t guess_offset;
};
// Each channel's last values, weighed: weight [taps, channels], floats; the bias [channels] may be empty.
// State: (taps - 1) rows; a guess: one.
ValueId causal_conv(Graph& g, ValueId x, const Parameter& weight, const Parameter& bias,
                    const StatePlace& place, bool silu, std::string name);
// x / max(|x|, eps) for each of the first `heads` heads of a row; the columns behind them stay.
ValueId l2_norm(Graph& g, ValueId x, size_t heads, size_t head_dim, float eps, std::string name);
struct GatedDeltaShape {
  StatePlace place;
  size_t key_heads, value_heads;  // groups of value heads share a key head
  size_t key_dim, value_dim;      // of a head
  bool tiled;                     // value head h has key head h mod key_heads, not h div the size of a group
  float scale;
  const Parameter* a;   // [value_heads], below zero
  const Parameter* dt;  // [value_heads]
  // Where only some value heads are here, and they are not tiled: those of one key head in the whole layer
  // (0: value_heads / key_heads), and how many of the first key head's are elsewhere. Tiled: key heads stand
  // in the order in which the value heads take them.
  size_t group = 0;
  size_t heads_before = 0;

  size_t key_head_of(size_t value_head) const {
    if (tiled) return value_head % key_heads;
    return (value_head + heads_before) / (group == 0 ? value_heads / key_heads : group);
  }
  size_t guess_floats_per_head() const { return key_dim + value_dim + 2; }
};
// Rows are queries, keys (both of key_heads) and values (of value_heads); alpha and beta [n, value_heads]:
// [n, value_heads * value_dim]. ops/gated_delta.cc says what is computed. State: a matrix of key_dim *
// value_dim for each value head.
ValueId gated_delta(Graph& g, ValueId qkv, ValueId alpha, ValueId beta, const GatedDeltaShape& shape,
                    std::string name);
struct SelectiveStateShape {
  StatePlace place;
  size_t heads, head_dim;  // of inputs and outputs
  size_t groups;           // of neighbouring heads, which share what they write to the state and read of it
  size_t state_dim;
  const Parameter* a;     // [heads], below zero
  const Parameter* dt;    // [heads]
  const Parameter* skip;  // [heads]
  // Where only some heads are here: those of a group in the whole layer (0: heads / groups), and how many of
  // the first group's are elsewhere.
  size_t group = 0;
  size_t heads_before = 0;

  size_t group_of(size_t head) const { return (head + heads_before) / (group == 0 ? heads / groups : group); }
  size_t columns() const { return heads * head_dim + 2 * groups * state_dim; }
  size_t guess_floats_per_head() const { return state_dim + head_dim + 1; }
};
// Rows are inputs of all heads, then what groups write, then what they read [state_dim each]; steps [n,
// heads]: [n, heads * head_dim]. ops/selective_state.cc says what is computed. State: a matrix of state_dim *
// head_dim for each head.
ValueId selective_state(Graph& g, ValueId rows, ValueId steps, const SelectiveStateShape& shape,
                        std::string name);
// The recurrent ones (causal_conv, gated_delta, selective_state) without a cache, as causal_attention(): rows
// are sequences of `length`, and documents of them begin where `positions` are 0. The places of states are
// not read; weights and numbers of heads are frozen.
ValueId sequence_conv(Graph& g, ValueId x, const Parameter& weight, const Parameter& bias, bool silu,
                      size_t length, std::string name, ValueId positions = {});
ValueId sequence_delta(Graph& g, ValueId qkv, ValueId alpha, ValueId beta, const GatedDeltaShape& shape,
                       size_t length, std::string name, ValueId positions = {});
ValueId sequence_state(Graph& g, ValueId rows, ValueId steps, const SelectiveStateShape& shape, size_t length,
                       std::string name, ValueId positions = {});
// x * sigmoid(by): [n, cols], or [n, 1] for whole rows.
ValueId gate(Graph& g, ValueId x, ValueId by, std::string name);
// Columns come in groups of 2 * half: the first halves of all groups, and the second ones.
std::pair<ValueId, ValueId> halves(Graph& g, ValueId x, size_t half, std::string name);

// Zeroes values with probability `rate` and scales the others by 1 / (1 - rate). `key` [2] of i32 is an input
// of the run; `stream` tells layers apart.
ValueId dropout(Graph& g, ValueId x, ValueId key, float rate, uint32_t stream, std::string name);

// Softmax of every row.
ValueId softmax(Graph& g, ValueId x, std::string name);

// Images are [items, height, width, channels]; sizes of the input in `conv` and `pool` are filled in.
// The bias may be empty; `relu` is done in the same pass.
ValueId conv2d(Graph& g, ValueId x, const kernels::Conv2d& conv, const Parameter& weight,
               const Parameter& bias, bool relu, std::string name);
ValueId max_pool2d(Graph& g, ValueId x, const kernels::Pool2d& pool, std::string name);
ValueId avg_pool2d(Graph& g, ValueId x, const kernels::Pool2d& pool, std::string name);
// [items, channels, height, width] as [items, height, width, channels]. Has no gradient: for inputs.
ValueId channels_last(Graph& g, ValueId x, std::string name);
struct BatchNormParameters {
  const Parameter* weight;
  const Parameter* bias;
  const Parameter* mean;      // statistic
  const Parameter* variance;  // statistic
};
// Channels are the last axis.
ValueId batch_norm(Graph& g, ValueId x, const BatchNormParameters& parameters, float eps, bool training,
                   std::string name);
ValueId group_norm(Graph& g, ValueId x, const Parameter& weight, const Parameter& bias, size_t groups,
                   float eps, std::string name);

// Calls `function` with the value's floats at this place of every run.
using Apply = std::function<void(const float* values, ThreadPool& pool)>;
void apply(Graph& g, ValueId value, Apply function, const Cost& cost, std::string name);

// Losses are sums over rows times the value of `factor` [1]: with 1 / (targets of the whole step)
// micro-batches of unequal size add up to the mean.
inline constexpr int32_t kNoTarget = -100;  // rows that take no part; any negative number
struct Loss {
  ValueId loss;     // [1]
  ValueId correct;  // [rows] i32: 1 where the largest logit is the target's
  ValueId rows;     // [rows]: losses, without the factor
};
Loss cross_entropy(Graph& g, ValueId logits, ValueId targets, ValueId factor, std::string name);
// The same for logits x * W^T, which never exist for more than a chunk of rows.
Loss linear_cross_entropy(Graph& g, ValueId x, const Parameter& weight, ValueId targets, ValueId factor,
                          bool with_gradients, std::string name);
// factor * sum of (x - target)^2
ValueId mse(Graph& g, ValueId x, ValueId target, ValueId factor, std::string name);

}  // namespace butterfly::graph
