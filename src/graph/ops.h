// The operations, as functions that add a node to a graph. One file each in ops/, one row each in
// op_table.cc.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/parameter.h"
#include "kernels/attention.h"
#include "kernels/rope.h"

namespace butterfly::graph {

std::span<const OpType* const> op_table();

// Rows `ids` [n] of a table of any element type, as floats: [n, cols].
ValueId embedding(Graph& g, ValueId ids, const Parameter& table, std::string name);
// Rows `indices` [n] of x [rows, cols].
ValueId select_rows(Graph& g, ValueId x, ValueId indices, std::string name);
ValueId add(Graph& g, ValueId a, ValueId b, std::string name);
// Adds a vector [cols] to every row.
ValueId add_bias(Graph& g, ValueId x, const Parameter& bias, std::string name);
ValueId rms_norm(Graph& g, ValueId x, const Parameter& weight, float eps, std::string name);
// silu(gate) * up
ValueId swiglu(Graph& g, ValueId gate, ValueId up, std::string name);

// x * W^T for one or several matrices that want the same form of activations: one split over all their
// outputs.
std::vector<ValueId> matmul(Graph& g, ValueId x, std::span<const Parameter* const> weights, std::string name);
// Rows in the form that products with `kind` weights read.
ValueId quantize_rows(Graph& g, ValueId x, kernels::ActKind kind, std::string name);

// Cosines and sines of the rows' positions [n]: [n, turn_floats]. Shared by all layers.
ValueId rope_turns(Graph& g, ValueId positions, const kernels::Rope& rope, std::string name);
// Turns heads of `head_dim` in every row.
ValueId rope(Graph& g, ValueId x, ValueId turns, kernels::RopeLayout layout, size_t head_dim,
             std::string name);

struct AttentionShape {
  size_t layer;
  size_t heads;
  size_t kv_heads;
  size_t head_dim;
  kernels::AttentionParams params;
};
// Stores k and v [n, kv_heads * head_dim] in the cache of the run, then attends with q [n, heads * head_dim].
ValueId cached_attention(Graph& g, ValueId q, ValueId k, ValueId v, const AttentionShape& shape,
                         std::string name);

}  // namespace butterfly::graph
