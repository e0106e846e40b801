#include "graph/executor.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"

namespace butterfly::graph {

std::byte* Arena::ensure(size_t bytes) {
  if (memory_.size() < bytes) {
    memory_ = Buffer();  // give back first: old contents are not needed
    memory_ = Buffer::allocate(bytes);
  }
  return memory_.data();
}

const KvStep& RunContext::kv() const {
  BF_CHECK(kv_ != nullptr) << "this graph attends over a cache, but none was given";
  return *kv_;
}

Exchange& RunContext::exchange() const {
  BF_CHECK(exchange_ != nullptr)
      << "this graph has a part of shared layers, but there is no way to the others";
  return *exchange_;
}

void RunContext::for_rows(size_t rows, size_t values_per_row, FunctionRef<void(size_t, size_t)> fn) const {
  constexpr size_t kForkValues = 16384;
  if (rows <= 1 || rows * values_per_row < kForkValues) {
    if (rows > 0) fn(0, rows);
    return;
  }
  pool_.parallel_for(rows, 1, fn);
}

Executor::Executor(Graph graph, Arena& arena, ThreadPool& pool)
    : Executor(std::move(graph), arena, pool.size()) {
  pool_ = &pool;
}

Executor::Executor(Graph graph, Arena& arena, size_t threads)
    : graph_(std::move(graph)),
      arena_(arena),
      threads_(threads),
      plan_(plan_memory(graph_, threads)),
      slots_(graph_.slot_count(), nullptr),
      node_ns_(graph_.nodes().size(), 0) {}

void Executor::run(const KvStep* kv) {
  BF_CHECK(pool_ != nullptr) << "this executor gets its pool with each run";
  run(kv, *pool_);
}

void Executor::run_nodes(size_t begin, size_t end) {
  BF_CHECK(pool_ != nullptr && begin <= end && end <= graph_.nodes().size()) << begin << " to " << end;
  base_ = place();
  const RunContext context(graph_, plan_, base_, *pool_, nullptr, slots_.data(), nullptr);
  for (size_t i = begin; i < end; ++i) graph_.nodes()[i].op->forward(graph_.nodes()[i], context);
}

void Executor::run(const KvStep* kv, ThreadPool& pool, Exchange* exchange) {
  BF_CHECK(pool.size() == threads_) << pool.size() << " threads, memory was planned for " << threads_;
  base_ = place();
  for (const std::byte* slot : slots_) BF_CHECK(slot != nullptr) << "a bound value has no memory";
  const RunContext context(graph_, plan_, base_, pool, kv, slots_.data(), exchange);
  for (size_t i = 0; i < graph_.nodes().size(); ++i) run_node(i, context);
}

namespace {

uint64_t ns_since(std::chrono::steady_clock::time_point start) {
  const auto spent = std::chrono::steady_clock::now() - start;
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count());
}

}  // namespace

void Executor::run_node(size_t index, const RunContext& context) {
  const Node& node = graph_.nodes()[index];
  if (!profiling_) {
    node.op->forward(node, context);
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  node.op->forward(node, context);
  node_ns_[index] += ns_since(start);
}

RunInPieces::RunInPieces(Executor& executor, const KvStep* kv, ThreadPool& pool, Exchange* exchange)
    : executor_(executor),
      context_(executor.graph_, executor.plan_, executor.base_ = executor.place(), pool, kv,
               executor.slots_.data(), exchange) {
  BF_CHECK(pool.size() == executor.threads_)
      << pool.size() << " threads, memory was planned for " << executor.threads_;
}

bool RunInPieces::run_piece() {
  if (started_ != nullptr) {
    const auto start = std::chrono::steady_clock::now();
    started_->finish();
    started_.reset();
    if (executor_.profiling_) executor_.node_ns_[next_ - 1] += ns_since(start);
  }
  const auto& nodes = executor_.graph_.nodes();
  while (next_ < nodes.size()) {
    const Node& node = nodes[next_++];
    if (node.op->start != nullptr) {
      started_ = node.op->start(node, context_);
      return true;
    }
    executor_.run_node(next_ - 1, context_);
  }
  return false;
}

}  // namespace butterfly::graph
