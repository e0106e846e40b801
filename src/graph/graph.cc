#include "graph/graph.h"

#include "base/check.h"
#include "base/checked.h"
#include "kernels/activation_rows.h"

namespace butterfly::graph {

size_t ValueType::row_bytes() const {
  switch (elem) {
    case Elem::kF32:
    case Elem::kI32:
      return cols() * 4;
    case Elem::kQ8x32:
      return kernels::act_layout(kernels::ActKind::kQ8x32, cols()).row_bytes;
    case Elem::kQ8x256:
      return kernels::act_layout(kernels::ActKind::kQ8x256, cols()).row_bytes;
  }
  return 0;
}

ValueId Graph::input(std::string name, ValueType type) {
  values_.push_back({.type = std::move(type), .name = std::move(name)});
  return {static_cast<uint32_t>(values_.size() - 1)};
}

std::vector<ValueId> Graph::add(const OpType& op, std::vector<ValueId> inputs,
                                std::shared_ptr<const void> attributes, std::string name) {
  for (ValueId input : inputs) BF_CHECK(input.index < values_.size()) << op.name << ": unknown input";
  Node node{.op = &op,
            .inputs = std::move(inputs),
            .outputs = {},
            .attributes = std::move(attributes),
            .name = std::move(name)};
  for (ValueType& type : op.infer(*this, node)) {
    values_.push_back(
        {.type = std::move(type), .name = node.name, .producer = static_cast<int32_t>(nodes_.size())});
    node.outputs.push_back({static_cast<uint32_t>(values_.size() - 1)});
  }
  nodes_.push_back(std::move(node));
  return nodes_.back().outputs;
}

Cost Graph::cost(const CostContext& context) const {
  Cost total;
  for (const Node& node : nodes_) total += node.op->cost(*this, node, context);
  return total;
}

}  // namespace butterfly::graph
