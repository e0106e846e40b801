// Rows that name adapters get the bits of a graph that has that adapter alone.
#include "graph/row_adapters.h"

#include <gtest/gtest.h>

#include <bit>

#include "base/rng.h"
#include "graph/executor.h"
#include "graph/expert_linear.h"

namespace butterfly::graph {
namespace {

constexpr size_t kIn = 320, kOut = 70, kVocab = 40;

Parameter matrix(Shape shape, uint64_t seed) {
  Parameter parameter{.name = "m", .value = Tensor::zeros(DType::kF32, shape)};
  for (int64_t i = 0; i < shape.count(); ++i)
    parameter.value.data<float>()[i] = random_normal(seed, 0, static_cast<uint64_t>(i));
  if (shape.rank() == 2) parameter.packed = kernels::PackedMatrix(parameter.value);
  return parameter;
}

LowRank adapter(int64_t rank, float scale, uint64_t seed, int64_t out = kOut, int64_t in = kIn) {
  return {.a = matrix({rank, in}, seed), .b = matrix({out, rank}, seed + 1), .scale = scale};
}

using Bits = std::vector<uint32_t>;

struct Inputs {
  std::vector<ValueId> floats, ids, adapters;
};

// Runs what `build` makes of n rows; values depend on the row alone.
template <typename F>
Bits run(size_t n, size_t threads, std::span<const int32_t> names,
         std::span<const AdapterLayers* const> adapters, F&& build) {
  ThreadPool pool(threads);
  Arena arena;
  Graph g;
  const auto rows = static_cast<int64_t>(n);
  const ValueId x = g.input("x", {Elem::kF32, {rows, kIn}}), y = g.input("y", {Elem::kF32, {rows, kOut}}),
                ids = g.input("ids", {Elem::kI32, {rows}}), of = g.input("adapters", {Elem::kI32, {rows}});
  const ValueId out = build(g, x, y, ids, of);
  g.mark_output(out);
  Executor executor(std::move(g), arena, pool);
  for (size_t r = 0; r < n; ++r) {
    for (size_t c = 0; c < kIn; ++c)
      reinterpret_cast<float*>(executor.input(x))[r * kIn + c] = random_normal(5, r, c);
    for (size_t c = 0; c < kOut; ++c)
      reinterpret_cast<float*>(executor.input(y))[r * kOut + c] = random_normal(6, r, c);
    reinterpret_cast<int32_t*>(executor.input(ids))[r] = static_cast<int32_t>(r * 7 % kVocab);
    reinterpret_cast<int32_t*>(executor.input(of))[r] = names.empty() ? kNoAdapter : names[r];
  }
  KvStep kv;
  kv.adapters = adapters;
  executor.run(&kv);
  Bits bits;
  for (size_t i = 0; i < executor.graph().type(out).bytes() / 4; ++i)
    bits.push_back(std::bit_cast<uint32_t>(executor.output(out)[i]));
  return bits;
}

// Row by row, of several results over the same rows: the one that the row names; the last for those that name
// none.
Bits choose(std::span<const Bits> results, std::span<const int32_t> names, size_t cols) {
  Bits chosen;
  for (size_t r = 0; r < names.size(); ++r) {
    const Bits& from = names[r] == kNoAdapter ? results.back() : results[static_cast<size_t>(names[r])];
    chosen.insert(chosen.end(), from.begin() + static_cast<ptrdiff_t>(r * cols),
                  from.begin() + static_cast<ptrdiff_t>((r + 1) * cols));
  }
  return chosen;
}

// Alone, in runs, and one by one.
const std::vector<std::vector<int32_t>> kMixes = {{-1, -1, 0, 0, 0, 1, 1, 2, 2, -1, 1},
                                                  {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
                                                  {2, 1, 0, -1, 2, 1, 0, -1, 2, 1, 0},
                                                  {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}};

TEST(RowAdapters, ARowGetsTheBitsOfItsAdapterAlone) {
  // Of different rank and scale; the third adds nothing at this place.
  const LowRank one = adapter(8, 0.5f, 1), two = adapter(20, -2, 3), elsewhere = adapter(4, 1, 5);
  const AdapterLayers first{{{}, one}, 8, 0}, second{{{}, two}, 20, 0}, third{{elsewhere}, 4, 0};
  const AdapterLayers* all[] = {&first, &second, &third};
  for (const size_t unit : {size_t{0}, size_t{64}}) {
    const auto alone = [&](const LowRank& low) {
      return run(11, 1, {}, {}, [&](Graph& g, ValueId x, ValueId y, ValueId, ValueId) {
        const Parameter *a = &low.a, *b = &low.b;
        const ValueId ax = matmul(g, x, {&a, 1}, "a", unit)[0];
        return add_scaled(g, y, matmul(g, ax, {&b, 1}, "b")[0], low.scale, "add");
      });
    };
    const Bits plain = run(
        11, 1, {}, {}, [](Graph& g, ValueId, ValueId y, ValueId, ValueId) { return scale(g, y, 1, "y"); });
    const Bits want[] = {alone(one), alone(two), plain, plain};
    ASSERT_NE(want[0], want[1]);
    for (const auto& names : kMixes)
      for (const size_t threads : {1, 3})
        EXPECT_EQ(run(11, threads, names, all,
                      [&](Graph& g, ValueId x, ValueId y, ValueId, ValueId of) {
                        const RowAdapters rows{of, 32};
                        const size_t sites[] = {0, 1};
                        const auto low = adapter_products(g, x, rows, sites, "a", unit);
                        return add_adapters(g, y, low[1], rows, 1, "add");
                      }),
                  choose(want, names, kOut))
            << unit << " " << threads;
  }
}

TEST(RowAdapters, TablesAreReadByTheIdsOfTheirRows) {
  const LowRank one = adapter(8, 0.5f, 1, kOut, 8), two = adapter(20, -2, 3, kOut, 20);
  const auto with_table = [](LowRank low, uint64_t seed) {
    const int64_t rank = low.b.value.size(1);
    low.a = matrix({kVocab, rank}, seed);
    low.a.packed = {};
    return low;
  };
  const LowRank rows_one = with_table(one, 9), rows_two = with_table(two, 10);
  const AdapterLayers first{{rows_one}, 8, 0}, second{{rows_two}, 20, 0}, third{{}, 0, 0};
  const AdapterLayers* all[] = {&first, &second, &third};
  const auto alone = [&](const LowRank& low) {
    return run(11, 1, {}, {}, [&](Graph& g, ValueId, ValueId y, ValueId ids, ValueId) {
      const Parameter* b = &low.b;
      const ValueId row = embedding(g, ids, low.a, "a");
      return add_scaled(g, y, matmul(g, row, {&b, 1}, "b")[0], low.scale, "add");
    });
  };
  const Bits plain =
      run(11, 1, {}, {}, [](Graph& g, ValueId, ValueId y, ValueId, ValueId) { return scale(g, y, 1, "y"); });
  const Bits want[] = {alone(rows_one), alone(rows_two), plain, plain};
  for (const auto& names : kMixes)
    EXPECT_EQ(run(11, 2, names, all,
                  [](Graph& g, ValueId, ValueId y, ValueId ids, ValueId of) {
                    const RowAdapters rows{of, 32};
                    return add_adapters(g, y, adapter_rows(g, ids, rows, 0, "a"), rows, 0, "add");
                  }),
              choose(want, names, kOut));
}

// Rows that stand sorted by expert, two experts for each.
TEST(RowAdapters, ExpertsToo) {
  constexpr int64_t kExperts = 5;
  const auto of_experts = [](int64_t rank, float scale, uint64_t seed) {
    return LowRank{.a = matrix({kExperts, rank, kIn}, seed),
                   .b = matrix({kExperts, 2 * kOut, rank}, seed + 1),
                   .scale = scale};
  };
  const LowRank one = of_experts(8, 0.5f, 1), two = of_experts(20, -2, 3);
  const AdapterLayers first{{one}, 8, 0}, second{{two}, 20, 0}, third{{}, 0, 0};
  const AdapterLayers* all[] = {&first, &second, &third};
  const auto route = [](Graph& g, ValueId x) {
    return moe_route(g, columns(g, x, 0, kExperts, "logits"), {.used = 2}, {}, {}, "route");
  };
  for (const size_t half : {0, 1}) {
    // What the second half of B's columns adds, too: gates and what they open are in one tensor.
    const auto alone = [&](const LowRank* low) {
      return run(11, 1, {}, {}, [&](Graph& g, ValueId x, ValueId y, ValueId, ValueId) {
        const MoeRoute to = route(g, x);
        ValueId slots = gather_slots(g, y, to, "y");
        if (low != nullptr) {
          const ValueId ax = expert_linear(g, gather_slots(g, x, to, "x"), to, low->a, 0, "a", 64);
          const ValueId both = expert_linear(g, ax, to, low->b, 0, "b");
          slots = add_scaled(g, slots, columns(g, both, half * kOut, kOut, "half"), low->scale, "add");
        }
        return moe_combine(g, slots, to, "sum");
      });
    };
    const Bits want[] = {alone(&one), alone(&two), alone(nullptr), alone(nullptr)};
    for (const auto& names : kMixes)
      for (const size_t threads : {1, 3})
        EXPECT_EQ(run(11, threads, names, all,
                      [&](Graph& g, ValueId x, ValueId y, ValueId, ValueId of) {
                        const MoeRoute to = route(g, x);
                        const RowAdapters places{gather_slots(g, of, to, "of"), 32};
                        const ValueId low =
                            expert_adapter_products(g, gather_slots(g, x, to, "x"), to, places, 0, "a", 64);
                        const ValueId slots = add_expert_adapters(g, gather_slots(g, y, to, "y"), low, to,
                                                                  places, 0, half * kOut, "add");
                        return moe_combine(g, slots, to, "sum");
                      }),
                  choose(want, names, kOut));
  }
}

}  // namespace
}  // namespace butterfly::graph
