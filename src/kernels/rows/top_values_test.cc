#include "kernels/rows/top_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/rng.h"

namespace butterfly::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

bool is_strange(float value) { return std::isnan(value) || value == kInfinity; }

// By sorting all of them.
std::vector<int32_t> plain(const std::vector<float>& row, size_t k) {
  std::vector<int32_t> ids(row.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    const float x = row[static_cast<size_t>(a)], y = row[static_cast<size_t>(b)];
    if (is_strange(x) || is_strange(y)) return is_strange(x) && !is_strange(y);
    return x > y;
  });
  ids.resize(k);
  return ids;
}

void expect_plain(const std::vector<float>& row, size_t k) {
  std::vector<int32_t> ids(k, -1);
  std::vector<float> values(k);
  top_values(row.data(), row.size(), k, ids.data(), values.data());
  EXPECT_EQ(ids, plain(row, k)) << row.size() << " values, " << k;
  for (size_t i = 0; i < k; ++i)
    EXPECT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(row[static_cast<size_t>(ids[i])]));
}

TEST(TopValues, AreThoseOfASort) {
  for (const size_t count : {1, 2, 7, 255, 256, 257, 1000, 9000})
    for (const size_t k : {1, 2, 5, 40, 300}) {
      if (k > count) continue;
      std::vector<float> row(count), few(count);
      for (size_t i = 0; i < count; ++i) {
        row[i] = random_normal(3, count, i);
        few[i] = std::floor(2 * random_uniform(4, count, i));  // mostly equal
      }
      expect_plain(row, k);
      expect_plain(few, k);
    }
}

TEST(TopValues, WhatCannotBeChosen) {
  for (const float strange : {kNan, kInfinity, -kInfinity, -0.0f})
    for (const size_t count : {3, 700, 20000}) {
      std::vector<float> row(count, -kInfinity);
      row[count / 2] = 1;
      expect_plain(row, 3);
      row[count - 1] = strange;
      row[0] = 0;
      expect_plain(row, 1);
      expect_plain(row, 2);
      for (float& value : row) value = strange;
      expect_plain(row, 3);
    }
}

}  // namespace
}  // namespace butterfly::kernels
