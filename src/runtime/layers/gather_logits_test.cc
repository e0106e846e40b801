// The op that brings logits of several members together, on rows that a model would hardly make.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/rng.h"
#include "graph/executor.h"
#include "graph/ops.h"
#include "model/sampling/sampler.h"
#include "runtime/testing/inproc_exchange.h"

namespace butterfly::runtime {
namespace {

using graph::MemberRange;
using Rows = std::vector<std::vector<float>>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// What the first member has in the end.
Rows gathered(const Rows& rows, const std::vector<MemberRange>& owners,
              const std::vector<int32_t>& candidates) {
  const size_t cols = rows[0].size();
  testing::InprocGroup group(owners.size());
  Rows whole;
  const auto member = [&](size_t self) {
    const MemberRange mine = owners[self];
    graph::Graph g;
    const auto count = static_cast<int64_t>(rows.size());
    const graph::ValueId wanted = g.input("candidates", {graph::Elem::kI32, {count}});
    graph::ValueId logits;
    if (!mine.empty())
      logits = g.input("logits", {graph::Elem::kF32, {count, static_cast<int64_t>(mine.count())}});
    const graph::ValueId out = graph::gather_logits(g, logits, wanted, cols, owners, self, "logits");
    g.mark_output(out);
    graph::Arena arena;
    ThreadPool pool(1);
    graph::Executor executor(std::move(g), arena, pool);
    std::ranges::copy(candidates, reinterpret_cast<int32_t*>(executor.input(wanted)));
    for (size_t row = 0; row < rows.size() && !mine.empty(); ++row)
      std::copy(rows[row].begin() + static_cast<ptrdiff_t>(mine.begin),
                rows[row].begin() + static_cast<ptrdiff_t>(mine.end),
                reinterpret_cast<float*>(executor.input(logits)) + row * mine.count());
    executor.run(nullptr, pool, &group.end(self));
    for (size_t row = 0; row < rows.size() && self == 0; ++row)
      whole.emplace_back(executor.output(out) + row * cols, executor.output(out) + (row + 1) * cols);
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < owners.size(); ++i) others.emplace_back(member, i);
  member(0);
  for (std::thread& other : others) other.join();
  return whole;
}

// Token, or the error's text.
std::string chosen(std::span<const float> logits, int32_t k, float temperature, uint64_t position) {
  model::SamplerSettings settings;
  settings.temperature = temperature;
  settings.top_k = k;
  try {
    return std::to_string(model::Sampler(settings).sample(logits, {}, position));
  } catch (const Error& error) {
    return error.what();
  }
}

void expect_same_choices(const Rows& rows) {
  const size_t cols = rows[0].size();
  const std::vector<std::vector<MemberRange>> shares = {
      {{0, cols / 2}, {cols / 2, cols}},
      {{0, 0}, {0, cols}},
      {{cols / 3, cols}, {0, cols / 3}},
      {{5, cols - 1}, {cols - 1, cols}, {3, 3}, {0, 5}},
  };
  for (const auto& owners : shares)
    for (const int32_t k : {0, 1, 3, 40, 1000}) {
      const Rows found = gathered(rows, owners, std::vector<int32_t>(rows.size(), k));
      for (size_t row = 0; row < rows.size(); ++row) {
        if (k == 0) {
          EXPECT_THAT(found[row], ::testing::Pointwise(::testing::NanSensitiveFloatEq(), rows[row]));
        }
        for (uint64_t position = 0; position < 20 && k > 0; ++position) {
          EXPECT_EQ(chosen(found[row], k, 1.0f, position), chosen(rows[row], k, 1.0f, position));
          EXPECT_EQ(chosen(found[row], k, 0.0f, position), chosen(rows[row], k, 0.0f, position));
        }
      }
    }
}

TEST(GatherLogits, EqualsAreTakenInTheOrderOfIds) {
  Rows rows(4, std::vector<float>(600));
  for (size_t i = 0; i < 600; ++i) {
    rows[0][i] = 1;
    rows[1][i] = i % 2 == 0 ? 0.0f : -0.0f;
    rows[2][i] = static_cast<float>(i % 5);
    rows[3][i] = random_normal(1, 2, i);
  }
  expect_same_choices(rows);
}

TEST(GatherLogits, WhatCannotBeChosenIsFoundToo) {
  Rows rows(7, std::vector<float>(600));
  for (size_t i = 0; i < 600; ++i)
    for (auto& row : rows) row[i] = random_normal(1, 3, i);
  rows[0][580] = kNan;
  rows[1][300] = rows[1][580] = kInf;
  rows[2][2] = rows[2][590] = kNan;
  for (size_t i = 0; i < 600; ++i) {
    rows[3][i] = -kInf;
    rows[4][i] = i == 577 ? 0 : -kInf;
    if (i % 7 != 0) rows[5][i] = -kInf;
    rows[6][i] = kNan;
  }
  expect_same_choices(rows);
}

// Rows of one step may want different things.
TEST(GatherLogits, RowsHaveNumbersOfTheirOwn) {
  Rows rows(3, std::vector<float>(100));
  for (size_t row = 0; row < 3; ++row)
    for (size_t i = 0; i < 100; ++i) rows[row][i] = random_normal(1, row, i);
  const Rows found = gathered(rows, {{0, 10}, {10, 100}}, {2, 0, 45});
  EXPECT_EQ(std::ranges::count(found[0], -kInf), 88);
  EXPECT_EQ(found[1], rows[1]);
  EXPECT_EQ(found[2], rows[2]) << "half of the columns with their places are as many floats as all of them";
}

}  // namespace
}  // namespace butterfly::runtime
