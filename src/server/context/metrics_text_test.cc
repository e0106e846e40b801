#include "server/context/metrics_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace butterfly::server {
namespace {

TEST(MetricsText, ValuesLabelsAndHistograms) {
  MetricsText text;
  text.family("a_total", "counter", "What it counts.");
  text.value("a_total", {{"name", "x\"\\\ny"}}, 12);
  EXPECT_EQ(text.take(),
            "# HELP a_total What it counts.\n# TYPE a_total counter\na_total{name=\"x\\\"\\\\\\ny\"} 12\n");

  runtime::Histogram histogram;
  for (const auto ms : {1, 3, 3, 200'000}) histogram.add(std::chrono::milliseconds(ms));
  MetricsText buckets;
  buckets.histogram("t", {{"m", "x"}}, histogram);
  const std::string out = buckets.take();
  EXPECT_THAT(out, ::testing::HasSubstr("t_bucket{m=\"x\",le=\"0.001\"} 1\n"));
  EXPECT_THAT(out, ::testing::HasSubstr("t_bucket{m=\"x\",le=\"0.0025\"} 1\n"));
  EXPECT_THAT(out, ::testing::HasSubstr("t_bucket{m=\"x\",le=\"0.005\"} 3\n"));
  EXPECT_THAT(out, ::testing::HasSubstr("t_bucket{m=\"x\",le=\"100\"} 3\n"));
  EXPECT_THAT(out, ::testing::HasSubstr("t_bucket{m=\"x\",le=\"+Inf\"} 4\n"));
  EXPECT_THAT(out, ::testing::HasSubstr("t_count{m=\"x\"} 4\n"));
}

}  // namespace
}  // namespace butterfly::server
