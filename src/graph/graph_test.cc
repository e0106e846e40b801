// Small graphs: results, costs, in-place memory, and errors in words.
#include "graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/rng.h"
#include "graph/executor.h"
#include "graph/ops.h"
#include "kernels/quant/quant.h"

namespace butterfly::graph {
namespace {

Parameter matrix(DType dtype, int64_t rows, int64_t cols, uint64_t seed) {
  Tensor value = Tensor::zeros(dtype, {rows, cols});
  std::vector<float> floats(static_cast<size_t>(rows * cols));
  for (size_t i = 0; i < floats.size(); ++i) floats[i] = random_normal(seed, 0, i);
  kernels::from_float(dtype, floats.data(), value.raw(), floats.size());
  return {.name = "w", .value = value, .packed = kernels::PackedMatrix(value)};
}

Parameter vector_of(std::vector<float> values) {
  Tensor value = Tensor::zeros(DType::kF32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), value.data<float>());
  return {.name = "v", .value = value, .packed = {}};
}

ValueType rows_of(int64_t rows, int64_t cols) { return {Elem::kF32, {rows, cols}}; }

TEST(Graph, RunsAndKeepsOutputs) {
  Graph g;
  const ValueId a = g.input("a", rows_of(2, 3));
  const ValueId b = g.input("b", rows_of(2, 3));
  const ValueId sum = add(g, a, b, "sum");
  const ValueId twice = add(g, sum, b, "twice");
  g.mark_output(sum);
  g.mark_output(twice);
  Arena arena;
  ThreadPool pool(2);
  Executor run(std::move(g), arena, pool);
  for (int i = 0; i < 6; ++i) {
    reinterpret_cast<float*>(run.input(a))[i] = static_cast<float>(i);
    reinterpret_cast<float*>(run.input(b))[i] = 10.0f;
  }
  run.run(nullptr);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(run.output(sum)[i], static_cast<float>(i + 10));
    EXPECT_EQ(run.output(twice)[i], static_cast<float>(i + 20));
  }
}

TEST(Graph, OpsInPlaceTakeOverMemoryThatNobodyNeeds) {
  Graph g;
  const ValueId a = g.input("a", rows_of(1, 64));
  const ValueId b = g.input("b", rows_of(1, 64));
  const ValueId first = add(g, a, b, "first");  // a dies here: in place
  const ValueId second = add(g, first, b, "second");
  const ValueId third = add(g, second, first, "third");  // first is still needed, second is not
  g.mark_output(third);
  const MemoryPlan plan = plan_memory(g, 1);
  EXPECT_EQ(plan.value_offsets[first.index], plan.value_offsets[a.index]);
  EXPECT_NE(plan.value_offsets[second.index], plan.value_offsets[first.index]);
  EXPECT_EQ(plan.value_offsets[third.index], plan.value_offsets[second.index]);
  EXPECT_EQ(plan.arena_bytes, 3 * 256u);
}

TEST(Graph, AMatmulCostsTwiceTheProductOfItsSizes) {
  const Parameter w = matrix(DType::kF32, 48, 64, 1);
  Graph g;
  const ValueId x = g.input("x", rows_of(5, 64));
  const Parameter* weights[] = {&w};
  g.mark_output(matmul(g, x, weights, "y")[0]);
  const Cost cost = g.cost({});
  EXPECT_EQ(cost.flops, 2u * 5 * 48 * 64);
  EXPECT_EQ(cost.weight_bytes, 48u * 64 * 4);
  EXPECT_EQ(cost.activation_bytes, (5u * 64 + 5 * 48) * 4);
}

TEST(Graph, AttentionCostsBothProductsOverWhatEachRowSees) {
  Graph g;
  const ValueId q = g.input("q", rows_of(3, 64)), k = g.input("k", rows_of(3, 32)),
                v = g.input("v", rows_of(3, 32));
  AttentionShape shape{.layer = 0, .heads = 4, .kv_heads = 2, .head_dim = 16, .params = {}};
  cached_attention(g, q, k, v, shape, "attention");
  EXPECT_EQ(g.cost({.context = 10}).flops, 4u * (11 + 12 + 13) * 4 * 16);
  shape.params.window = 12;
  Graph windowed;
  const ValueId q2 = windowed.input("q", rows_of(3, 64)), k2 = windowed.input("k", rows_of(3, 32)),
                v2 = windowed.input("v", rows_of(3, 32));
  cached_attention(windowed, q2, k2, v2, shape, "attention");
  EXPECT_EQ(windowed.cost({.context = 10}).flops, 4u * (11 + 12 + 12) * 4 * 16);
}

TEST(Graph, SeveralMatricesInOneProductEqualSingleOnes) {
  for (DType dtype : {DType::kF32, DType::kQ8_0, DType::kQ4_K}) {
    const Parameter w1 = matrix(dtype, 100, 256, 1), w2 = matrix(dtype, 30, 256, 2);
    std::vector<std::vector<float>> results;
    for (size_t threads : {1, 2, 3}) {
      Graph g;
      const ValueId x = g.input("x", rows_of(4, 256));
      const auto kind = w1.packed.act();
      const ValueId rows = kind == kernels::ActKind::kF32 ? x : quantize_rows(g, x, kind, "x.q8");
      const Parameter* both[] = {&w1, &w2};
      const Parameter* single[] = {&w2};
      const auto joint = matmul(g, rows, both, "both");
      const auto alone = matmul(g, rows, single, "alone");
      for (ValueId out : {joint[0], joint[1], alone[0]}) g.mark_output(out);
      Arena arena;
      ThreadPool pool(threads);
      Executor run(std::move(g), arena, pool);
      for (size_t i = 0; i < 4 * 256; ++i) reinterpret_cast<float*>(run.input(x))[i] = random_normal(9, 9, i);
      run.run(nullptr);
      for (size_t i = 0; i < 4 * 30; ++i) ASSERT_EQ(run.output(joint[1])[i], run.output(alone[0])[i]);
      results.emplace_back(run.output(joint[0]), run.output(joint[0]) + 4 * 100);
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
  }
}

TEST(Graph, WrongShapesAreErrorsInWords) {
  Graph g;
  const ValueId x = g.input("x", rows_of(2, 8));
  const Parameter norm = vector_of({1, 1, 1});
  try {
    rms_norm(g, x, norm, 1e-5f, "blk.0.attn_norm");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[rms_norm] blk.0.attn_norm: expected 8 weights, found 3");
  }
  const Parameter w = matrix(DType::kQ8_0, 16, 32, 1);
  const Parameter* weights[] = {&w};
  EXPECT_THROW(matmul(g, x, weights, "y"), Error);
  EXPECT_THROW(add(g, x, g.input("y", rows_of(2, 9)), "sum"), Error);
}

TEST(Graph, EveryOpOfTheTableHasAllItsParts) {
  for (const OpType* op : op_table()) {
    EXPECT_FALSE(op->name.empty());
    EXPECT_NE(op->infer, nullptr) << op->name;
    EXPECT_NE(op->cost, nullptr) << op->name;
    EXPECT_NE(op->forward, nullptr) << op->name;
    EXPECT_EQ(std::count_if(op_table().begin(), op_table().end(),
                            [&](auto* other) { return other->name == op->name; }),
              1);
  }
}

}  // namespace
}  // namespace butterfly::graph
