// Nodes of the backward pass, as functions that add them. Used by the ops' backward functions only.
#pragma once
#include "graph/gradients.h"
#include "graph/ops/op_util.h"

namespace butterfly::graph {

// dY [n, out] * W [out, in]; added to `sum` where there is one.
ValueId linear_dx(Graph& g, ValueId dy, const Parameter& weight, ValueId sum, std::string name);
// dY^T X: [out, in].
ValueId linear_dw(Graph& g, ValueId dy, ValueId x, std::string name);
// The same through packed weights of any element type.
ValueId matmul_dx(Graph& g, ValueId dy, const Parameter& weight, ValueId sum, std::string name);
// Mixtures of experts: rows from the gradients of their places; places through the experts' matrices, added
// to `sum` where there is one; experts' rows and weights from those of the sums; logits from the weights'.
ValueId gather_slots_grad(Graph& g, ValueId dy, ValueId order, size_t used, std::string name);
ValueId expert_matmul_dx(Graph& g, ValueId dy, ValueId begins, const ExpertParameter& weight, ValueId sum,
                         std::string name);
struct CombineGradients {
  ValueId dy, dweights;
};
CombineGradients moe_combine_grad(Graph& g, ValueId dout, ValueId y, ValueId weights, ValueId places,
                                  std::string name);
ValueId moe_route_grad(Graph& g, ValueId logits, ValueId dweights, ValueId places, ValueId begins,
                       const RouteOptions& options, const Parameter* expert_scale, std::string name);
// Sums over the rows: [cols].
ValueId column_sum(Graph& g, ValueId x, std::string name);
// [rows, cols] with row i of x added to row ids[i]; starts from `sum`, or from zeros.
ValueId scatter_rows(Graph& g, ValueId sum, ValueId x, ValueId ids, size_t rows, std::string name);

struct NormGradients {
  ValueId dx, dweight, dbias;  // invalid where not wanted
};
NormGradients rms_norm_grad(Graph& g, ValueId x, ValueId dy, const Parameter& weight, float eps,
                            std::string name, size_t groups = 1);
NormGradients layer_norm_grad(Graph& g, ValueId x, ValueId dy, const Parameter& weight, bool with_bias,
                              float eps, std::string name);

// Whether the node's only result is that of a relu: the op itself, or a convolution with one.
bool ends_with_relu(const Node& node);

// Of the input x (silu, gelu) or of the result y (relu, soft_cap).
ValueId relu_grad(Graph& g, ValueId y, ValueId dy, std::string name);
ValueId silu_grad(Graph& g, ValueId x, ValueId dy, std::string name);
ValueId gelu_grad(Graph& g, ValueId x, ValueId dy, std::string name);
ValueId soft_cap_grad(Graph& g, ValueId y, ValueId dy, float cap, std::string name);
struct GatedGradients {
  ValueId dgate, dup;
};
GatedGradients swiglu_grad(Graph& g, ValueId gate, ValueId up, ValueId dy, std::string name);
GatedGradients swiglu_clamped_grad(Graph& g, ValueId gate, ValueId up, ValueId dy, std::string name);
GatedGradients geglu_grad(Graph& g, ValueId gate, ValueId up, ValueId dy, std::string name);

// dx = dy * (1 - (y / cap)^2), in pieces that stay in the first cache. dx may be dy.
void soft_cap_backward(const float* y, const float* dy, float cap, float* dx, size_t count);

}  // namespace butterfly::graph
