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
enum class Elem : uint8_t { kF32, kI32, kU16, kQ8x32, kQ8x64, kQ8x128, kQ8x256 };

struct ValueType {
  Elem elem = Elem::kF32;
  Shape shape;  // [rows, cols], or [rows]; further axes belong to the columns
  size_t rows() const { return static_cast<size_t>(shape[0]); }
  size_t cols() const {
    size_t count = 1;
    for (size_t axis = 1; axis < shape.rank(); ++axis) count *= static_cast<size_t>(shape[axis]);
    return count;
  }
  size_t row_bytes() const;
  size_t bytes() const { return rows() * row_bytes(); }
};

// What memory is for: planned, shown and bounded apart. What lasts has a region of its own (memory_plan.h),
// so that it can be saved, sent or updated as one run of bytes.
enum class MemoryClass : uint8_t { kActivations, kWeights, kGradients, kOptimizer, kCommunication };
inline constexpr size_t kMemoryClasses = 5;
std::string_view memory_class_name(MemoryClass memory);

struct Value {
  ValueType type;
  std::string name;
  int32_t producer = -1;  // index of the node; -1: an input
  bool output = false;    // kept to the end of the run
  MemoryClass memory = MemoryClass::kActivations;
  int32_t slot = -1;  // >= 0: not in the arena, but in memory that Executor::bind() names; such are outputs
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

// Nodes are added in an order in which they can run; that order is the order of execution. Owns nodes and
// attributes; borrows weights. One thread builds it; once built it may be read by any.
class Graph {
 public:
  ValueId input(std::string name, ValueType type);
  // Adds a node; the op says what comes out. Throws Error kInvalidArgument, in words, when the inputs do not
  // fit.
  std::vector<ValueId> add(const OpType& op, std::vector<ValueId> inputs,
                           std::shared_ptr<const void> attributes, std::string name);
  void mark_output(ValueId value) { values_[value.index].output = true; }
  void set_memory_class(ValueId value, MemoryClass memory) { values_[value.index].memory = memory; }
  // The value gets its memory from Executor::bind(); so do the values it was made from in place. Returns the
  // slot.
  int32_t bind(ValueId value);
  size_t slot_count() const { return static_cast<size_t>(slot_count_); }

  // For transformations: these nodes in this order. Values keep their places; who makes them is found anew.
  static Graph assemble(std::vector<Node> nodes, std::vector<Value> values, size_t slot_count);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Value>& values() const { return values_; }
  const ValueType& type(ValueId value) const { return values_[value.index].type; }

  // Sum over all nodes.
  Cost cost(const CostContext& context) const;

 private:
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  int32_t slot_count_ = 0;
};

}  // namespace butterfly::graph
