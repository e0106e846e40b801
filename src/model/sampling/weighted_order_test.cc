// Places in a row against sorting it whole.
#include "model/sampling/weighted_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "kernels/math/math.h"
#include "model/sampling/testing/rows.h"

namespace butterfly::model {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Sorted {
  std::vector<Candidate> order;
  std::vector<uint64_t> sums;  // up to each, its own included
};

Sorted sort_all(std::span<const float> logits, kernels::WeightScale scale) {
  Sorted all;
  for (size_t i = 0; i < logits.size(); ++i)
    all.order.push_back({static_cast<int32_t>(i), logits[i],
                         kernels::exp_f32((logits[i] - scale.largest) / scale.temperature)});
  std::sort(all.order.begin(), all.order.end(),
            [](const auto& a, const auto& b) { return comes_before(a, b); });
  uint64_t sum = 0;
  for (const Candidate& c : all.order) all.sums.push_back(sum += kernels::weight_units(c.weight));
  return all;
}

void check_place(WeightedOrder& order, const Sorted& all, uint64_t need, kernels::WeightScale scale,
                 float least, uint64_t units) {
  const auto at =
      static_cast<size_t>(std::lower_bound(all.sums.begin(), all.sums.end(), need) - all.sums.begin());
  size_t end = at + 1;
  while (end < all.order.size() && all.order[end].logit == all.order[at].logit) ++end;
  const auto place = order.find(need, scale, least, units);
  ASSERT_EQ(place.id, all.order[at].id) << need;
  ASSERT_EQ(place.logit, all.order[at].logit);
  ASSERT_EQ(place.units, all.sums[at]);
  ASSERT_EQ(place.equals_behind, end - 1 - at);
}

TEST(WeightedOrder, IsTheOrderOfEverythingSorted) {
  LogitScan scan;
  WeightedOrder order;
  for (const size_t size : {1u, 2u, 47u, 300u, 3000u, 20'000u}) {
    for (const NamedRow& row : rows_of_every_shape(size, size)) {
      SCOPED_TRACE(::testing::Message() << row.name << " " << size);
      const Candidate first = scan.read(row.logits);
      order.read(scan);
      for (const float temperature : size < 3000 ? std::vector{1.0f, 0.6f, 5.0f} : std::vector{0.9f}) {
        const kernels::WeightScale scale{first.logit, temperature};
        const Sorted all = sort_all(row.logits, scale);
        const uint64_t units = all.sums.back();
        ASSERT_EQ(order.sum_units(-kInf, scale), units);
        for (uint64_t i = 0; i <= 16; ++i)
          ASSERT_NO_FATAL_FAILURE(
              check_place(order, all, std::max<uint64_t>(1, units / 16 * i), scale, -kInf, units));
        ASSERT_NO_FATAL_FAILURE(check_place(order, all, units, scale, -kInf, units));
        // Sums and places when only a front part is asked for: a large one and a small one.
        for (const size_t front : {size / 2, size / 9}) {
          const float least = all.order[front].logit;
          uint64_t kept = 0;
          for (size_t i = 0; i < size && all.order[i].logit >= least; ++i) kept = all.sums[i];
          order.keep_front(least);
          ASSERT_EQ(order.sum_units(least, scale), kept);
          for (uint64_t i = 0; i <= 8; ++i)
            ASSERT_NO_FATAL_FAILURE(
                check_place(order, all, std::max<uint64_t>(1, kept / 8 * i), scale, least, kept));
        }
        order.read(scan);
      }
    }
  }
}

// Steps of the sample look like the row: a sample that sees only low ones, or only high ones.
TEST(WeightedOrder, WrongGuessesAreFoundOut) {
  constexpr size_t kSize = 40'960;  // a sample of 2048 is every 20th
  LogitScan scan;
  WeightedOrder order;
  for (const bool high : {false, true}) {
    std::vector<float> logits(kSize);
    for (size_t i = 0; i < kSize; ++i)
      logits[i] = random_normal(1, 2, i) * 0.1f + ((i % 20 == 0) == high ? 1.0f : 0.0f);
    const kernels::WeightScale scale{scan.read(logits).logit, 1};
    order.read(scan);
    const Sorted all = sort_all(logits, scale);
    const uint64_t units = all.sums.back();
    for (uint64_t i = 1; i <= 64; ++i)
      ASSERT_NO_FATAL_FAILURE(check_place(order, all, units / 64 * i, scale, -kInf, units));
  }
}

}  // namespace
}  // namespace butterfly::model
