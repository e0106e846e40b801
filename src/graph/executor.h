// Runs a planned graph on a thread pool.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "graph/exchange.h"
#include "graph/graph.h"
#include "graph/kv_step.h"
#include "graph/memory_plan.h"
#include "tensor/buffer.h"

namespace butterfly::graph {

// Activation memory, shared by graphs that do not run at the same time. Grows to the largest. One thread at a
// time.
class Arena {
 public:
  std::byte* ensure(size_t bytes);
  size_t bytes() const { return memory_.size(); }

 private:
  Buffer memory_;
};

// What an op sees while it runs. Borrows the executor's values for one op; for_rows() shares its rows out
// over the pool, the rest is for the thread that runs.
class RunContext {
 public:
  // `slots`: memory of bound values.
  RunContext(const Graph& graph, const MemoryPlan& plan, std::byte* arena, ThreadPool& pool, const KvStep* kv,
             std::byte* const* slots, Exchange* exchange)
      : graph_(graph), plan_(plan), arena_(arena), pool_(pool), kv_(kv), slots_(slots), exchange_(exchange) {}

  std::byte* raw(ValueId value) const {
    const int32_t slot = graph_.values()[value.index].slot;
    return slot >= 0 ? slots_[slot] : arena_ + plan_.value_offsets[value.index];
  }
  float* f32(ValueId value) const { return reinterpret_cast<float*>(raw(value)); }
  int32_t* i32(ValueId value) const { return reinterpret_cast<int32_t*>(raw(value)); }
  const ValueType& type(ValueId value) const { return graph_.type(value); }
  ThreadPool& pool() const { return pool_; }
  std::byte* scratch(const Node& node, size_t worker) const {
    const auto index = static_cast<size_t>(&node - graph_.nodes().data());
    return arena_ + plan_.scratch_offsets[index] + worker * plan_.scratch_bytes[index];
  }
  const KvStep& kv() const;
  Exchange& exchange() const;

  // Splits rows over the pool where the work is worth a fork (about 16 k values); fn(begin, end).
  void for_rows(size_t rows, size_t values_per_row, FunctionRef<void(size_t, size_t)> fn) const;

 private:
  const Graph& graph_;
  const MemoryPlan& plan_;
  std::byte* arena_;
  ThreadPool& pool_;
  const KvStep* kv_;
  std::byte* const* slots_;
  Exchange* exchange_;
};

// One graph with its plan. Not thread-safe; the arena and, where it has one, the pool are borrowed and must
// outlive it.
class Executor {
 public:
  Executor(Graph graph, Arena& arena, ThreadPool& pool);
  // For pools of so many threads, which come with each run.
  Executor(Graph graph, Arena& arena, size_t threads);

  const Graph& graph() const { return graph_; }
  const MemoryPlan& plan() const { return plan_; }
  // Fill before run(). Valid until another executor of the same arena runs.
  std::byte* input(ValueId value) { return place() + plan_.value_offsets[value.index]; }
  // Values stand so many bytes behind the begin of the arena, which is large enough for that: for two that
  // run in turns.
  void set_place(size_t bytes_before) { bytes_before_ = bytes_before; }
  // Memory of a bound value, borrowed: as large as the value, 64-byte aligned. Needed before the first run.
  void bind(int32_t slot, std::byte* memory) { slots_[static_cast<size_t>(slot)] = memory; }
  // `kv` may be null for graphs without cached attention.
  void run(const KvStep* kv);
  // `exchange`: the other members, for graphs that compute a part of shared layers.
  void run(const KvStep* kv, ThreadPool& pool, Exchange* exchange = nullptr);
  // Nodes [begin, end) alone, on the executor's own pool: a forward pass now and its backward pass later, if
  // nothing else has run in the arena meanwhile. Bound values that they write have their memory by then.
  void run_nodes(size_t begin, size_t end);
  const float* output(ValueId value) const {
    return reinterpret_cast<const float*>(base_ + plan_.value_offsets[value.index]);
  }

  // Nanoseconds spent in each node so far, when switched on.
  void set_profiling(bool on) { profiling_ = on; }
  const std::vector<uint64_t>& node_ns() const { return node_ns_; }

 private:
  friend class RunInPieces;
  std::byte* place() { return arena_.ensure(bytes_before_ + plan_.arena_bytes) + bytes_before_; }
  void run_node(size_t index, const RunContext& context);

  Graph graph_;
  Arena& arena_;
  size_t bytes_before_ = 0;
  ThreadPool* pool_ = nullptr;
  const size_t threads_;
  MemoryPlan plan_;
  std::byte* base_ = nullptr;
  std::vector<std::byte*> slots_;
  bool profiling_ = false;
  std::vector<uint64_t> node_ns_;
};

// One run of an executor up to each op that waits for others (OpType::start): while that is under way,
// another run can compute. Borrows everything; one thread. What is under way when it goes ends first.
class RunInPieces {
 public:
  RunInPieces(Executor& executor, const KvStep* kv, ThreadPool& pool, Exchange* exchange);
  // Finishes what the piece before has started, and runs the next one. False: that was the last.
  bool run_piece();

 private:
  Executor& executor_;
  const RunContext context_;
  size_t next_ = 0;  // node
  std::unique_ptr<StartedOp> started_;
};

}  // namespace butterfly::graph
