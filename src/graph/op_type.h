// What the graph must know of an operation: its name, its outputs, its cost, and how to run it. One row in
// op_table.cc.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace butterfly::graph {

class Graph;
class GradientBuilder;
struct Node;
struct Parameter;
struct ValueType;
class RunContext;

// Work of one run. A multiply-add is two flops; a matrix product of [m, k] with [n, k] is 2 m n k.
struct Cost {
  uint64_t flops = 0;
  uint64_t weight_bytes = 0;      // parameters read
  uint64_t activation_bytes = 0;  // values read and written
  uint64_t kv_bytes = 0;          // cache read and written
  Cost& operator+=(const Cost& other) {
    flops += other.flops;
    weight_bytes += other.weight_bytes;
    activation_bytes += other.activation_bytes;
    kv_bytes += other.kv_bytes;
    return *this;
  }
};

// What a cost depends on besides shapes.
struct CostContext {
  size_t context = 0;         // positions in the cache before this run
  size_t kv_value_bytes = 2;  // bytes of one cached value
};

// What an op has started; it is done after finish(), which throws what forward() would have.
class StartedOp {
 public:
  virtual ~StartedOp() = default;
  virtual void finish() = 0;
};

struct OpType {
  std::string_view name;
  // Types of the outputs. Throws Error kInvalidArgument naming the op, the expected and the found.
  std::vector<ValueType> (*infer)(const Graph& graph, const Node& node);
  Cost (*cost)(const Graph& graph, const Node& node, const CostContext& context);
  // Bytes of scratch per thread; null: none.
  size_t (*scratch)(const Graph& graph, const Node& node);
  // The first output may take the memory of this input if nobody else needs it; -1: never.
  int in_place;
  void (*forward)(const Node& node, const RunContext& run);
  // The weights the node reads; null: none.
  std::vector<const Parameter*> (*parameters)(const Node& node) = nullptr;
  // Adds the nodes that turn the gradients of the outputs into those of inputs and parameters (gradients.h).
  // Null: the op has no gradient.
  void (*backward)(GradientBuilder& b, const Node& node) = nullptr;
  // forward() in two parts, where it waits for others: in between something else may run. Null: it has one.
  std::unique_ptr<StartedOp> (*start)(const Node& node, const RunContext& run) = nullptr;
};

}  // namespace butterfly::graph
