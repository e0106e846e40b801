// Losses of a language model's head, and of preferences between answers: nodes as those of ops.h.
#pragma once
#include <string>

#include "graph/ops.h"

namespace butterfly::graph {

struct HeadLoss {
  bool with_gradients = true;
  float cap = 0;                    // logits become cap * tanh(logits / cap); 0: they stay
  ValueId slopes = {};              // [rows]: what each row's loss counts; invalid: 1
  float product_scale = 1;          // of x W^T alone
  const Parameter* bias = nullptr;  // [vocabulary], added to all of it; may learn; null: none
  // What an adapter adds to the logits: scale * low B^T, with rows `low` [rows, rank] and plain floats B
  // [vocabulary, rank], which may learn. Null: nothing.
  ValueId low = {};
  const Parameter* b = nullptr;
  float scale = 1;  // of what the adapter adds
};
// linear_cross_entropy() with more to choose. Packed weights are frozen, and x has the form they read.
Loss head_loss(Graph& g, ValueId x, const Parameter& weight, ValueId targets, ValueId factor,
               const HeadLoss& options, std::string name);

// Pairs of answers of `length` rows each, the better one first: from losses of their rows, and those of the
// model before it learned, how far the first is preferred (ops/preference.cc). The slope by each row's loss
// is for head_loss(), which is the loss that gradients begin with.
struct Preference {
  ValueId loss;     // [1]: times factor
  ValueId correct;  // [rows] i32: 1 in the first row of a pair whose better answer is preferred
  ValueId slopes;   // [rows]
};
Preference preference(Graph& g, ValueId losses, ValueId reference, ValueId factor, size_t length, float beta,
                      std::string name);

}  // namespace butterfly::graph
