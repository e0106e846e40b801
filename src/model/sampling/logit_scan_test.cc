#include "model/sampling/logit_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/rng.h"
#include "kernels/math/math.h"

namespace butterfly::model {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Candidate largest_logit(std::span<const float> logits) { return LogitScan().read(logits); }

TEST(LogitScan, LowestIdWinsTies) {
  EXPECT_EQ(largest_logit(std::vector<float>{1, 3, 3, 2}).id, 1);
  EXPECT_EQ(largest_logit(std::vector<float>{-1, -0.0f, 0.0f}).id, 1);
  EXPECT_EQ(largest_logit(std::vector<float>{-kInf, -5, -kInf}).id, 1);
  std::vector<float> far(1000, -1.0f);
  far[300] = far[999] = 7;
  EXPECT_EQ(largest_logit(far).id, 300);
  std::vector<float> zeros(600, -0.0f);  // -0 and 0 are equal also when they are in different blocks
  zeros[599] = 0.0f;
  EXPECT_EQ(largest_logit(zeros).id, 0);
}

TEST(LogitScan, WhatIsNoNumberIsAnError) {
  for (const size_t size : {1u, 5u, 255u, 256u, 257u, 1000u}) {
    for (const float bad : {kNan, -kNan, kInf}) {
      for (const size_t at : {size_t{0}, size / 2, size - 1}) {
        std::vector<float> logits(size, 1.0f);
        logits[at] = bad;
        try {
          largest_logit(logits);
          ADD_FAILURE() << size << " " << bad;
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Errc::kInvalidArgument);
          EXPECT_THAT(error.what(), ::testing::HasSubstr("token " + std::to_string(at) + ","));
        }
      }
    }
  }
  EXPECT_THROW(largest_logit({}), Error);
  EXPECT_THROW(largest_logit(std::vector<float>(300, -kInf)), Error);
}

TEST(LogitScan, TopKEqualsSorting) {
  for (const size_t size : {2u, 40u, 255u, 256u, 257u, 3000u, 30'000u}) {
    std::vector<float> logits(size);
    std::vector<Candidate> expected;
    for (size_t i = 0; i < size; ++i) {
      // Few distinct values, so that there are many ties.
      logits[i] = std::round(random_normal(1, 2, i) * 8) / 4;
      if (i % 97 == 5 || (size == 3000 && i % 100 != 0)) logits[i] = -kInf;
      if (logits[i] != -kInf) expected.push_back({static_cast<int32_t>(i), logits[i]});
    }
    std::sort(expected.begin(), expected.end(),
              [](const auto& a, const auto& b) { return comes_before(a, b); });
    for (const size_t k : {size_t{0}, size_t{1}, size_t{2}, size_t{40}, size_t{200}, size, size + 5}) {
      std::vector<Candidate> found;
      LogitScan scan;
      scan.read(logits);
      scan.top(k, found);
      ASSERT_EQ(found.size(), std::min(k, expected.size()));
      for (size_t i = 0; i < found.size(); ++i)
        EXPECT_EQ(found[i].id, expected[i].id) << size << " " << k << " " << i;
    }
  }
}

TEST(LogitScan, CollectsWhatIsInARange) {
  for (const size_t size : {1u, 255u, 1000u, 10'000u}) {
    std::vector<float> logits(size);
    for (size_t i = 0; i < size; ++i) logits[i] = i % 31 == 7 ? -kInf : random_normal(3, 4, i);
    LogitScan scan;
    scan.read(logits);
    for (const float least : {-kInf, -1.0f, 0.5f, 2.5f, 100.0f}) {
      for (const float below : {kInf, 3.0f, 0.5f}) {
        std::vector<int32_t> expected;
        for (size_t i = 0; i < size; ++i)
          if (logits[i] >= least && logits[i] < below) expected.push_back(static_cast<int32_t>(i));
        LogitList found;
        found.push_back(7, -7);
        scan.collect(least, below, found);
        ASSERT_EQ(found.size(), 1 + expected.size());
        EXPECT_EQ(found.ids()[0], -7) << "collect() appends";
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_EQ(found.ids()[1 + i], expected[i]);
          EXPECT_EQ(found.logits()[1 + i], logits[static_cast<size_t>(expected[i])]);
        }
      }
    }
  }
}

TEST(LogitScan, SumsOfUnits) {
  std::vector<float> logits(3000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = i % 31 == 7 ? -kInf : random_normal(3, 4, i) * 3;
  LogitScan scan;
  const Candidate first = scan.read(logits);
  for (const float temperature : {1.0f, 0.7f}) {
    const kernels::WeightScale scale{first.logit, temperature};
    const auto units = [&](float logit) {
      return kernels::weight_units(kernels::exp_f32((logit - first.logit) / temperature));
    };
    for (const float least : {-kInf, -1.0f, 2.5f, first.logit, 100.0f}) {
      uint64_t expected = 0;
      for (const float logit : logits) expected += logit >= least ? units(logit) : 0;
      EXPECT_EQ(scan.sum_units(least, scale), expected);
    }
    std::vector<uint64_t> sums(1), expected((logits.size() + LogitScan::kBlock - 1) / LogitScan::kBlock);
    scan.sum_blocks(scale, sums);
    for (size_t i = 0; i < logits.size(); ++i) expected[i / LogitScan::kBlock] += units(logits[i]);
    EXPECT_EQ(sums, expected);
  }
}

}  // namespace
}  // namespace butterfly::model
