#include "graph/graph.h"

#include <algorithm>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/tiles/activation_rows.h"

namespace butterfly::graph {

size_t ValueType::row_bytes() const {
  switch (elem) {
    case Elem::kF32:
    case Elem::kI32:
      return cols() * 4;
    case Elem::kU16:
      return cols() * 2;
    case Elem::kQ8x32:
      return kernels::act_layout(kernels::ActKind::kQ8x32, cols()).row_bytes;
    case Elem::kQ8x64:
      return kernels::act_layout(kernels::ActKind::kQ8x64, cols()).row_bytes;
    case Elem::kQ8x128:
      return kernels::act_layout(kernels::ActKind::kQ8x128, cols()).row_bytes;
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

std::string_view memory_class_name(MemoryClass memory) {
  switch (memory) {
    case MemoryClass::kActivations:
      return "activations";
    case MemoryClass::kWeights:
      return "weights";
    case MemoryClass::kGradients:
      return "gradients";
    case MemoryClass::kOptimizer:
      return "optimizer";
    case MemoryClass::kCommunication:
      return "communication";
  }
  return "";
}

int32_t Graph::bind(ValueId value) {
  const int32_t slot = slot_count_++;
  // Up the chain of ops that may work in place, as long as the input has no other reader: without this a
  // gradient that is made in two steps would be planned in the arena as well, and copied.
  for (;;) {
    Value& bound = values_[value.index];
    BF_CHECK(bound.slot < 0) << bound.name << " is bound twice";
    bound.slot = slot;
    bound.output = true;
    if (bound.producer < 0) break;
    const Node& node = nodes_[static_cast<size_t>(bound.producer)];
    if (node.op->in_place < 0 || node.outputs[0] != value) break;
    const ValueId from = node.inputs[static_cast<size_t>(node.op->in_place)];
    size_t uses = 0;
    for (const Node& user : nodes_)
      uses += static_cast<size_t>(std::count(user.inputs.begin(), user.inputs.end(), from));
    const Value& input = values_[from.index];
    if (uses != 1 || input.output || input.producer < 0 || input.type.bytes() != bound.type.bytes()) break;
    value = from;
  }
  return slot;
}

Graph Graph::assemble(std::vector<Node> nodes, std::vector<Value> values, size_t slot_count) {
  Graph graph;
  graph.nodes_ = std::move(nodes);
  graph.values_ = std::move(values);
  graph.slot_count_ = static_cast<int32_t>(slot_count);
  std::vector<bool> made(graph.values_.size(), false);
  for (size_t v = 0; v < made.size(); ++v) made[v] = graph.values_[v].producer < 0;
  for (size_t i = 0; i < graph.nodes_.size(); ++i) {
    for (const ValueId input : graph.nodes_[i].inputs)
      BF_CHECK(made[input.index]) << graph.nodes_[i].name << " reads a value before it is made";
    for (const ValueId output : graph.nodes_[i].outputs) {
      graph.values_[output.index].producer = static_cast<int32_t>(i);
      made[output.index] = true;
    }
  }
  return graph;
}

Cost Graph::cost(const CostContext& context) const {
  Cost total;
  for (const Node& node : nodes_) total += node.op->cost(*this, node, context);
  return total;
}

}  // namespace butterfly::graph
