// Layers against plain arithmetic, and a block whose rows do not depend on their batch.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/rng.h"
#include "graph/executor.h"
#include "graph/gradients.h"
#include "kernels/matmul/matmul.h"
#include "kernels/quant/quant.h"
#include "nn/transformer_block.h"

namespace butterfly::nn {
namespace {

using graph::Arena;
using graph::Elem;
using graph::Executor;
using graph::KvRow;
using graph::KvStep;

Parameter matrix(std::string name, DType dtype, int64_t rows, int64_t cols, uint64_t seed) {
  Tensor value = Tensor::zeros(dtype, {rows, cols});
  std::vector<float> floats(static_cast<size_t>(rows * cols));
  for (size_t i = 0; i < floats.size(); ++i) floats[i] = random_normal(seed, 0, i) / 8;
  kernels::from_float(dtype, floats.data(), value.raw(), floats.size());
  return {.name = std::move(name), .value = value, .packed = kernels::PackedMatrix(value)};
}

Parameter ones(std::string name, int64_t count) {
  Tensor value = Tensor::zeros(DType::kF32, {count});
  std::fill_n(value.data<float>(), count, 1.0f);
  return {.name = std::move(name), .value = value, .packed = {}};
}

TEST(Linear, LayersOfOneKindShareAProductAndItsInput) {
  const Linear a{matrix("a", DType::kQ8_0, 32, 64, 1), {}}, b{matrix("b", DType::kQ4_0, 32, 64, 2), {}},
      c{matrix("c", DType::kF32, 32, 64, 3), ones("c.bias", 32)};
  Graph g;
  Builder builder(g);
  const ValueId x = g.input("x", {Elem::kF32, {2, 64}});
  const Linear* layers[] = {&a, &c, &b};
  const auto outputs = build_linears(builder, x, layers);
  size_t products = 0, quantised = 0, biases = 0;
  for (const auto& node : g.nodes()) {
    products += node.op->name == "matmul";
    quantised += node.op->name == "quantize_rows";
    biases += node.op->name == "add_bias";
  }
  EXPECT_EQ(products, 2u);  // a with b, c alone
  EXPECT_EQ(quantised, 1u);
  EXPECT_EQ(biases, 1u);
  EXPECT_EQ(outputs.size(), 3u);
}

// Frozen weights with an adapter that learns: dX = dY W + s (dY B) A, dB = s dY^T (X A^T), dA = s (dY B)^T X.
TEST(Linear, AdaptersLearnAndTheProductOfTheirMatricesIsNeverFormed) {
  constexpr size_t kRows = 3, kIn = 64, kOut = 32, kRank = 4;
  for (DType dtype : {DType::kF32, DType::kF16}) {
    Linear layer{.weight = matrix("w", dtype, kOut, kIn, 1)};
    LowRank adapter{.a = matrix("a", DType::kF32, kRank, kIn, 2),
                    .b = matrix("b", DType::kF32, kOut, kRank, 3),
                    .scale = 0.5f};
    for (Parameter* p : {&adapter.a, &adapter.b}) {
      p->packed = {};
      p->trainable = true;
    }
    layer.adapters.push_back(adapter);
    Graph g;
    Builder builder(g, Training{.length = 1});
    const ValueId x = g.input("x", {Elem::kF32, {kRows, kIn}}),
                  target = g.input("t", {Elem::kF32, {kRows, kOut}}),
                  factor = g.input("f", {Elem::kF32, {1}});
    const ValueId y = layer.build(builder, x);
    const graph::Gradients found =
        graph::gradients(g, graph::mse(g, y, target, factor, "loss"), {.inputs = {x}});
    ASSERT_EQ(found.parameters.size(), 2u);
    g.mark_output(y);
    g.mark_output(found.inputs[0]);
    for (const auto& gradient : found.parameters) g.mark_output(gradient.value);
    for (const auto& value : g.values())
      EXPECT_LT(value.type.bytes(), kIn * kOut * sizeof(float)) << value.name;
    Arena arena;
    ThreadPool pool(2);
    Executor run(std::move(g), arena, pool);
    std::vector<float> xs(kRows * kIn);
    for (size_t i = 0; i < xs.size(); ++i)
      reinterpret_cast<float*>(run.input(x))[i] = xs[i] = random_normal(5, 0, i);
    std::fill_n(reinterpret_cast<float*>(run.input(target)), kRows * kOut, 0.0f);
    *reinterpret_cast<float*>(run.input(factor)) = 0.5f;  // dY = Y
    run.run(nullptr);
    std::vector<float> w(kOut * kIn);
    kernels::to_float(dtype, layer.weight.value.raw(), w.data(), w.size());
    const float* a = adapter.a.value.data<float>();
    const float* b = adapter.b.value.data<float>();
    const float* dy = run.output(y);
    for (size_t i = 0; i < kRows; ++i)
      for (size_t c = 0; c < kIn; ++c) {
        double sum = 0;
        for (size_t o = 0; o < kOut; ++o) {
          double full = w[o * kIn + c];
          for (size_t r = 0; r < kRank; ++r) full += 0.5 * b[o * kRank + r] * a[r * kIn + c];
          sum += dy[i * kOut + o] * full;
        }
        ASSERT_NEAR(run.output(found.inputs[0])[i * kIn + c], sum, 1e-4);
      }
    for (size_t r = 0; r < kRank; ++r)
      for (size_t c = 0; c < kIn; ++c) {
        double sum = 0;
        for (size_t i = 0; i < kRows; ++i)
          for (size_t o = 0; o < kOut; ++o)
            sum += 0.5 * dy[i * kOut + o] * b[o * kRank + r] * xs[i * kIn + c];
        const size_t index = found.parameters[0].parameter->name == "a" ? 0 : 1;
        ASSERT_NEAR(run.output(found.parameters[index].value)[r * kIn + c], sum, 1e-4);
      }
  }
}

// What a row-parallel layer gives, in either form of its weights, for some rows.
struct RowParallel {
  static constexpr size_t kRows = 5, kIn = 1280, kOut = 40;
  std::vector<float> x = std::vector<float>(kRows * kIn);
  RowParallel() {
    for (size_t i = 0; i < x.size(); ++i) x[i] = random_normal(5, 0, i);
  }

  std::vector<float> run(const Linear& layer) const {
    Graph g;
    Builder builder(g);
    const ValueId input = g.input("x", {Elem::kF32, {kRows, kIn}});
    const ValueId y = layer.build(builder, input);
    g.mark_output(y);
    Arena arena;
    ThreadPool pool(2);
    Executor executor(std::move(g), arena, pool);
    std::copy(x.begin(), x.end(), reinterpret_cast<float*>(executor.input(input)));
    executor.run(nullptr);
    return {executor.output(y), executor.output(y) + kRows * layer.out()};
  }
  // Floats times `weight`, by shards of units of `unit` columns.
  std::vector<float> product(const Parameter& weight, size_t unit) const {
    std::vector<float> y(kRows * weight.rows());
    kernels::matmul_shards(weight.packed, kernels::ShardCuts::of(unit, kIn),
                           reinterpret_cast<const std::byte*>(x.data()), kIn * sizeof(float), kRows, y.data(),
                           weight.rows(), 0, 0, weight.rows());
    return y;
  }
};

TEST(Linear, ARowParallelLayerIsSummedByShardsPackedOrNot) {
  const RowParallel rows;
  Linear layer{.weight = matrix("w", DType::kF32, RowParallel::kOut, RowParallel::kIn, 1)};
  const auto chain = rows.run(layer);
  EXPECT_EQ(chain, rows.product(layer.weight, 0));
  layer.row_parallel = true;
  EXPECT_EQ(layer.shard_unit(), 64u);
  const auto packed = rows.run(layer);
  EXPECT_EQ(packed, rows.product(layer.weight, 64));
  EXPECT_NE(packed, chain);
  layer.weight.packed = {};  // as training has it
  EXPECT_EQ(rows.run(layer), packed);
}

TEST(Linear, AnAdapterOfARowParallelLayerHasTheCutsOfItsWeights) {
  const RowParallel rows;
  for (DType dtype : {DType::kF32, DType::kQ4_K}) {
    Linear layer{.weight = matrix("w", dtype, RowParallel::kOut, RowParallel::kIn, 1), .row_parallel = true};
    const auto without = rows.run(layer);
    const Parameter a = matrix("a", DType::kF32, 8, RowParallel::kIn, 2),
                    b = matrix("b", DType::kF32, RowParallel::kOut, 8, 3);
    layer.adapters.push_back({.a = a, .b = b, .scale = 0.5f});
    const size_t unit = dtype == DType::kF32 ? 64 : 256;
    const auto low = rows.product(a, unit);
    EXPECT_NE(low, rows.product(a, unit == 64 ? 256 : 64));
    std::vector<float> want(without.size());
    kernels::matmul(b.packed, reinterpret_cast<const std::byte*>(low.data()), 8 * sizeof(float),
                    RowParallel::kRows, want.data(), RowParallel::kOut, 0, RowParallel::kOut);
    for (size_t i = 0; i < want.size(); ++i) want[i] = std::fma(0.5f, want[i], without[i]);
    EXPECT_EQ(rows.run(layer), want) << dtype_name(dtype);
  }
}

TEST(Linear, RowParallelLayersDoNotShareAProductWithOthers) {
  Linear a{.weight = matrix("a", DType::kQ8_0, 32, 256, 1)},
      b{.weight = matrix("b", DType::kQ8_0, 32, 256, 2)};
  b.row_parallel = true;
  Graph g;
  Builder builder(g);
  const ValueId x = g.input("x", {Elem::kF32, {2, 256}});
  const Linear* layers[] = {&a, &b};
  build_linears(builder, x, layers);
  size_t products = 0;
  for (const auto& node : g.nodes()) products += node.op->name == "matmul";
  EXPECT_EQ(products, 2u);
}

// A block with a cache of its own: runs rows in pieces and returns all outputs.
struct BlockRun {
  static constexpr size_t kDim = 64, kHeads = 4, kKvHeads = 2, kHeadDim = 16, kFf = 96;
  TransformerBlock block;
  kernels::Rope rope{kernels::RopeParams{.head_dim = kHeadDim}};

  explicit BlockRun(DType dtype) {
    const auto linear = [&](const char* name, int64_t out, int64_t in, uint64_t seed) {
      return Linear{matrix(name, dtype, out, in, seed), {}};
    };
    block.attention_norm = {.weight = ones("attn_norm", kDim), .bias = {}};
    block.mlp_norm = {.weight = ones("ffn_norm", kDim), .bias = {}};
    block.attention.q = linear("q", kHeads * kHeadDim, kDim, 1);
    block.attention.k = linear("k", kKvHeads * kHeadDim, kDim, 2);
    block.attention.v = linear("v", kKvHeads * kHeadDim, kDim, 3);
    block.attention.out = linear("o", kDim, kHeads * kHeadDim, 4);
    block.attention.name = "attn";
    block.attention.shape = {0, kHeads, kKvHeads, kHeadDim, {.scale = 0.25f}};
    block.mlp = Mlp{.gate = linear("gate", kFf, kDim, 5),
                    .up = linear("up", kFf, kDim, 6),
                    .down = linear("down", kDim, kFf, 7),
                    .name = "ffn"};
  }

  // `pieces` sum to the number of rows; each piece is one run over the growing cache.
  std::vector<uint32_t> outputs(const std::vector<size_t>& pieces, size_t threads) {
    ThreadPool pool(threads);
    Arena arena;
    std::vector<uint32_t> ids = {2, 0, 1};
    const std::span<const uint32_t> pages(ids);
    graph::KvLayer layer{.layout = {DType::kF16, kHeadDim}, .kv_heads = kKvHeads};
    layer.page_stride = kKvHeads * layer.layout.page_bytes();
    const Buffer cache = Buffer::allocate(3 * layer.page_stride);
    layer.base = cache.data();
    KvStep kv;
    kv.layers = {&layer, 1};
    kv.page_ids[0] = {&pages, 1};
    std::vector<uint32_t> bits;
    size_t position = 0;
    for (size_t rows : pieces) {
      Graph g;
      Builder b(g);
      const ValueId x = g.input("x", {Elem::kF32, {static_cast<int64_t>(rows), kDim}});
      const ValueId positions = g.input("positions", {Elem::kI32, {static_cast<int64_t>(rows)}});
      const ValueId rotations = graph::rope_rotations(g, positions, rope, "rotations");
      const ValueId y = block.build(b, x, {.queries = rotations, .keys = rotations});
      g.mark_output(y);
      Executor run(std::move(g), arena, pool);
      std::vector<KvRow> kv_rows;
      for (size_t i = 0; i < rows; ++i) {
        reinterpret_cast<int32_t*>(run.input(positions))[i] = static_cast<int32_t>(position + i);
        for (size_t k = 0; k < kDim; ++k)
          reinterpret_cast<float*>(run.input(x))[i * kDim + k] = random_normal(33, position + i, k);
        kv_rows.push_back({0, static_cast<uint32_t>(position + i)});
      }
      kv.rows = kv_rows;
      run.run(&kv);
      for (size_t i = 0; i < rows * kDim; ++i) bits.push_back(std::bit_cast<uint32_t>(run.output(y)[i]));
      position += rows;
    }
    return bits;
  }
};

TEST(TransformerBlock, RowsDoNotDependOnBatchOrThreads) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kQ8_0, DType::kQ4_0}) {
    BlockRun run(dtype);
    const auto one_by_one = run.outputs(std::vector<size_t>(70, 1), 1);
    EXPECT_EQ(run.outputs({70}, 1), one_by_one) << dtype_name(dtype);
    EXPECT_EQ(run.outputs({70}, 2), one_by_one) << dtype_name(dtype);
    EXPECT_EQ(run.outputs({1, 2, 7, 60}, 3), one_by_one) << dtype_name(dtype);
    // More threads than KV heads, and than query heads.
    EXPECT_EQ(run.outputs(std::vector<size_t>(70, 1), 5), one_by_one) << dtype_name(dtype);
    for (uint32_t bits : one_by_one) ASSERT_TRUE(std::isfinite(std::bit_cast<float>(bits)));
  }
}

}  // namespace
}  // namespace butterfly::nn
