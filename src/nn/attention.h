// Multi-head attention with grouped KV heads (over the cache of the run, or within sequences); rotary
// positions and normalised queries and keys where a model has them.
#pragma once
#include <string>

#include "nn/linear.h"
#include "nn/norm.h"

namespace butterfly::nn {

// The rope rotations of the rows' positions; invalid: not rotated.
struct Rotations {
  ValueId queries, keys;
};

struct Attention {
  // Without k: over the keys and values of another layer. Without v: the products of k, before norm and turn,
  // are the values too.
  Linear q, k, v, out;
  bool gated = false;   // q gives for each head its query, then what its output is gated by
  Norm q_norm, k_norm;  // per head, before the turn; may be empty
  Norm v_norm = {};     // the same of values
  // Where a group shares the layer (`out` has owners): the heads that reach into this member's columns of
  // `out`, and their keys and values; all of them empty if it has none.
  graph::AttentionShape shape;
  // Where norms are over all heads of a row: the columns that are this member's; none: all.
  graph::MemberRange q_columns = {}, k_columns = {};
  Parameter sinks = {};       // one score per head that is here (AttentionQuery::sink); may be empty
  size_t columns_before = 0;  // of the first head, which are another member's
  size_t source = 0;          // without k: the layer, within the range, whose keys and values it reads
  kernels::RopeLayout rope_layout = kernels::RopeLayout::kInterleaved;
  std::string name;

  ValueId build(Builder& b, ValueId x, const Rotations& rotations) const;
};

}  // namespace butterfly::nn
