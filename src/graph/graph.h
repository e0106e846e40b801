// A static list of operations over typed values: built once per batch shape, planned, then run many times.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op_type.h"
#include "tensor/shape.h"

namespace butterfly::graph {

// A value of one graph. Only meaningful together with the graph that made it.
struct ValueId {
  uint32_t index = UINT32_MAX;
  bool valid() const { return index != UINT32_MAX; }
  friend bool operator==(ValueId, ValueId) = default;
};

// What a value holds. Quantised rows are activation_rows.h's form of [rows, cols] floats.
enum class Elem : uint8_t { kF32, kI32, kQ8x32, kQ8x256 };

struct ValueType {
  Elem elem = Elem::kF32;
  Shape shape;  // [rows, cols], or [rows]
  size_t rows() const { return static_cast<size_t>(shape[0]); }
  size_t cols() const { return shape.rank() > 1 ? static_cast<size_t>(shape[1]) : 1; }
  size_t row_bytes() const;
  size_t bytes() const { return rows() * row_bytes(); }
};

struct Value {
  ValueType type;
  std::string name;
  int32_t producer = -1;  // index of the node; -1: an input
  bool output = false;    // kept to the end of the run
};

// One operation. Attributes belong to the op's file; outside it they are opaque.
struct Node {
  const OpType* op = nullptr;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::shared_ptr<const void> attributes;
  std::string name;

  template <typename T>
  const T& attrs() const {
    return *static_cast<const T*>(attributes.get());
  }
};

// Nodes are added in an order in which they can run; that order is the order of execution.
class Graph {
 public:
  ValueId input(std::string name, ValueType type);
  // Adds a node; the op says what comes out. Throws Error kInvalidArgument, in words, when the inputs do not
  // fit.
  std::vector<ValueId> add(const OpType& op, std::vector<ValueId> inputs,
                           std::shared_ptr<const void> attributes, std::string name);
  void mark_output(ValueId value) { values_[value.index].output = true; }

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Value>& values() const { return values_; }
  const ValueType& type(ValueId value) const { return values_[value.index].type; }

  // Sum over all nodes.
  Cost cost(const CostContext& context) const;

 private:
  std::vector<Node> nodes_;
  std::vector<Value> values_;
};

}  // namespace butterfly::graph
