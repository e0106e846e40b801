// Row-parallel products: every type, target and shape against the plain loops, and any split over owners
// against the whole, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "kernels/matmul/matmul.h"
#include "kernels/matmul/subtree_sums.h"
#include "kernels/simd/target.h"
#include "kernels/testing/matmul_samples.h"

namespace butterfly::kernels {
namespace {

// Around one, two, four and eight shards, with a last unit that is not whole where a type allows it.
std::vector<size_t> columns_of(DType dtype) {
  const size_t block = dtype_info(dtype).block_values;
  if (block == 1) return {1, 64, 65, 100, 259, 512, 1100};
  if (block == 32) return {32, 64, 96, 160, 288, 512, 41 * 32};
  return {256, 512, 768, 5 * 256, 9 * 256};
}

Tensor columns(const Tensor& w, size_t begin, size_t end) {
  const DTypeInfo& info = dtype_info(w.dtype());
  Tensor part = Tensor::zeros(w.dtype(), {w.size(0), static_cast<int64_t>(end - begin)});
  const size_t rows = static_cast<size_t>(w.size(0)), row_bytes = w.bytes() / rows;
  const auto bytes = [&](size_t cols) { return cols / info.block_values * info.block_bytes; };
  for (size_t row = 0; row < rows; ++row)
    std::memcpy(part.raw() + row * bytes(end - begin), w.raw() + row * row_bytes + bytes(begin),
                bytes(end - begin));
  return part;
}

std::vector<float> whole(const PackedMatrix& w, const Acts& acts, size_t m, const ShardCuts& cuts) {
  std::vector<float> y(m * w.rows(), NAN);
  matmul_shards(w, cuts, acts.data.data(), acts.stride, m, y.data(), w.rows(), 0, 0, w.rows());
  return y;
}

// One node's part of a product: its columns, and the sums of its subtrees as it would send them.
struct Owner {
  std::vector<Subtree> owned;
  ShardCuts cuts;
  PackedMatrix weights;
  Acts acts;
  std::vector<float> sums;  // [m][subtrees][outputs]

  Owner(const Tensor& w, const Shards& shards, const std::vector<float>& x, size_t first, size_t last)
      : owned(subtrees(first, last)),
        cuts(ShardCuts::share(shards, first, last)),
        weights(columns(w, shards.begin(first), shards.begin(last))),
        acts(acts_of(weights.act(), x, shards.cols(), shards.begin(first), shards.begin(last))) {}
  void run(size_t m) {
    const size_t rows = weights.rows(), stride = owned.size() * rows;
    sums.assign(m * stride, NAN);
    matmul_shards(weights, cuts, acts.data.data(), acts.stride, m, sums.data(), stride, rows, 0, rows);
  }
  void add_parts(std::vector<SubtreeSums>& parts) const {
    for (size_t i = 0; i < owned.size(); ++i)
      parts.push_back({owned[i], sums.data() + i * weights.rows(), owned.size() * weights.rows()});
  }
};

// Where `owners` owners cut 8 or fewer shards: some may have none.
std::vector<size_t> random_cuts(size_t owners, size_t shards, uint64_t seed) {
  std::vector<size_t> cuts = {0, shards};
  for (size_t i = 1; i < owners; ++i) cuts.push_back(random_u64(seed, owners, i) % (shards + 1));
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

class ShardedTypes : public ::testing::TestWithParam<DType> {};

TEST_P(ShardedTypes, EveryTargetAndShapeEqualsThePlainLoops) {
  const DType dtype = GetParam();
  for (size_t cols : columns_of(dtype))
    for (int64_t rows : {1, 33, 83}) {
      if (rows == 83 && cols != columns_of(dtype).back()) continue;
      const Tensor w = random_weights(dtype, rows, static_cast<int64_t>(cols), 11);
      const PackedMatrix packed(w);
      const ShardCuts cuts = ShardCuts::whole(Shards(shard_unit(dtype), cols));
      // Every number of rows that a tile can have, on the widest; four of them elsewhere.
      const bool widest = cols == columns_of(dtype).back();
      for (size_t m : widest ? std::vector<size_t>{1, 2, 3, 5, 6, 8, 9, 12, 14, 16, 17, 33, 40}
                             : std::vector<size_t>{1, 3, 9, 17}) {
        if (rows == 1 && m > 9) continue;
        const Acts acts = random_acts(packed.act(), m, cols, 5);
        const auto want = bits(truth(w, acts, m, cuts));
        for_each_target([&](const std::string& target) {
          ASSERT_EQ(bits(whole(packed, acts, m, cuts)), want)
              << dtype_name(dtype) << " " << target << " rows " << rows << " cols " << cols << " m " << m;
        });
      }
    }
}

TEST_P(ShardedTypes, TheTreeIsAnotherSumThanOneChain) {
  const DType dtype = GetParam();
  const Tensor w = random_weights(dtype, 64, 2048, 3);
  const Acts acts = random_acts(act_kind(dtype), 4, 2048, 4);
  const auto chain = truth(w, acts, 4);
  const auto tree = truth(w, acts, 4, ShardCuts::whole(Shards(shard_unit(dtype), 2048)));
  size_t different = 0;
  for (size_t i = 0; i < chain.size(); ++i) {
    different += chain[i] != tree[i];
    EXPECT_NEAR(chain[i], tree[i], 1e-3 * (1 + std::fabs(chain[i])));
  }
  EXPECT_GT(different, chain.size() / 8);
}

// Any number of unequal owners gives the bits of one, in any order of panels.
TEST_P(ShardedTypes, EverySplitOverOwnersHasTheBitsOfTheWhole) {
  const DType dtype = GetParam();
  const int64_t rows = 37;
  for (size_t cols : {columns_of(dtype)[3], columns_of(dtype).back()}) {
    const Tensor w = random_weights(dtype, rows, static_cast<int64_t>(cols), 31);
    const PackedMatrix packed(w);
    const Shards shards(shard_unit(dtype), cols);
    for (size_t m : {1, 8, 40}) {
      const auto x = random_rows(m, cols, 7);
      const auto want = bits(truth(w, acts_of(packed.act(), x, cols, 0, cols), m, ShardCuts::whole(shards)));
      for (const size_t owners : {1, 2, 3, 5, 8}) {
        const auto cuts = random_cuts(owners, shards.count(), m + cols);
        std::vector<Owner> nodes;
        for (size_t i = 0; i < owners; ++i)
          if (cuts[i] < cuts[i + 1]) nodes.emplace_back(w, shards, x, cuts[i], cuts[i + 1]);
        for_each_target([&](const std::string& target) {
          std::vector<SubtreeSums> parts;
          for (Owner& node : nodes) {
            node.run(m);
            node.add_parts(parts);
          }
          ASSERT_LE(parts.size(), kShardsMax);
          std::vector<float> y(m * packed.rows(), NAN), plain(y);
          sum_subtrees(parts, m, y.data(), packed.rows(), 0, 20);  // outputs in pieces
          sum_subtrees(parts, m, y.data(), packed.rows(), 20, packed.rows());
          ref::sum_subtrees(parts, m, plain.data(), packed.rows(), 0, packed.rows());
          ASSERT_EQ(bits(y), want) << dtype_name(dtype) << " " << target << " cols " << cols << " m " << m
                                   << " owners " << owners << " of shards " << ::testing::PrintToString(cuts);
          ASSERT_EQ(bits(plain), want) << target;
        });
      }
    }
  }
}

// Every run of shards alone: all sets of subtrees.
TEST_P(ShardedTypes, EveryRunOfShardsEqualsThePlainLoops) {
  const DType dtype = GetParam();
  const size_t cols = columns_of(dtype).back(), rows = 21, m = 17;
  const Tensor w = random_weights(dtype, rows, static_cast<int64_t>(cols), 5);
  const Shards shards(shard_unit(dtype), cols);
  const auto x = random_rows(m, cols, 9);
  for (size_t first = 0; first < shards.count(); ++first)
    for (size_t last = first + 1; last <= shards.count(); ++last) {
      Owner node(w, shards, x, first, last);
      std::vector<std::vector<uint32_t>> seen;
      for_each_target([&](const std::string& target) {
        node.run(m);
        seen.push_back(bits(node.sums));  // the last one is "ref"
        ASSERT_EQ(std::count_if(node.sums.begin(), node.sums.end(), [](float v) { return std::isnan(v); }), 0)
            << target << " " << first << " " << last;
      });
      for (const auto& one : seen)
        ASSERT_EQ(one, seen.back()) << dtype_name(dtype) << " " << first << " " << last;
    }
}

TEST_P(ShardedTypes, PanelsInPiecesAreTheWhole) {
  const DType dtype = GetParam();
  const size_t cols = columns_of(dtype).back();
  const PackedMatrix packed(random_weights(dtype, 100, static_cast<int64_t>(cols), 3));
  const ShardCuts cuts = ShardCuts::whole(Shards(shard_unit(dtype), cols));
  for (size_t m : {1, 7, 40, 200}) {
    const Acts acts = random_acts(packed.act(), m, cols, m);
    std::vector<float> pieces(m * 100);
    for (size_t begin = 0; begin < 100; begin += 32)
      matmul_shards(packed, cuts, acts.data.data(), acts.stride, m, pieces.data(), 100, 0, begin,
                    std::min<size_t>(100, begin + 32));
    const auto together = whole(packed, acts, m, cuts);
    EXPECT_EQ(bits(pieces), bits(together)) << m;
    std::vector<float> alone(m * 100);
    for (size_t i = 0; i < m; ++i)
      matmul_shards(packed, cuts, acts.data.data() + i * acts.stride, acts.stride, 1, alone.data() + i * 100,
                    100, 0, 0, 100);
    EXPECT_EQ(bits(alone), bits(together)) << m;
  }
}

// NaNs of both signs and several payloads meet in the tree: the result is one of them nowhere.
TEST_P(ShardedTypes, NansAreOneNan) {
  const DType dtype = GetParam();
  const size_t cols = columns_of(dtype).back(), m = 20;
  const Tensor w = random_weights(dtype, 20, static_cast<int64_t>(cols), 3);
  const PackedMatrix packed(w);
  const Shards shards(shard_unit(dtype), cols);
  auto x = random_rows(m, cols, 9);
  for (size_t i = 0; i < m; ++i) {
    x[i * cols + i] = INFINITY;
    x[i * cols + cols - 1 - i] = -std::bit_cast<float>(0x7fc00123u);
    x[i * cols + cols / 2] = i % 2 == 0 ? -INFINITY : 1.0f;
  }
  const Acts acts = acts_of(packed.act(), x, cols, 0, cols);
  for_each_target([&](const std::string& target) {
    for (float value : whole(packed, acts, m, ShardCuts::whole(shards)))
      ASSERT_EQ(std::bit_cast<uint32_t>(value), kTreeNan) << target;
    Owner left(w, shards, x, 0, 3), right(w, shards, x, 3, shards.count());
    std::vector<SubtreeSums> parts;
    for (Owner* node : {&left, &right}) {
      node->run(m);
      node->add_parts(parts);
    }
    std::vector<float> y(m * 20);
    sum_subtrees(parts, m, y.data(), 20, 0, 20);
    for (float value : y) ASSERT_EQ(std::bit_cast<uint32_t>(value), kTreeNan) << target;
  });
}

std::string name_of(const ::testing::TestParamInfo<DType>& test) {
  return std::string(dtype_name(test.param));
}
INSTANTIATE_TEST_SUITE_P(All, ShardedTypes, ::testing::ValuesIn(matmul_types()), name_of);

TEST(SubtreeSums, RefusesWhatIsNoWholeTree) {
  const float sums[4] = {};
  float y[4];
  const auto run = [&](std::vector<Subtree> subtrees) {
    std::vector<SubtreeSums> parts;
    for (const Subtree& subtree : subtrees) parts.push_back({subtree, sums, 4});
    sum_subtrees(parts, 1, y, 4, 0, 4);
  };
  run({{0, 2}, {2, 1}, {3, 1}});
  EXPECT_DEATH(run({{0, 2}, {2, 1}}), "3 shards");
  EXPECT_DEATH(run({{0, 2}, {3, 1}}), "behind 2");
  EXPECT_DEATH(run({{0, 1}, {1, 2}, {3, 1}}), "shards 1 to 3");
  EXPECT_DEATH(run({{0, 8}, {8, 8}}), "16 shards");
  EXPECT_DEATH(run({}), "0 shards");
}

}  // namespace
}  // namespace butterfly::kernels
