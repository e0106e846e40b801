#include "runtime/training/wire_forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace butterfly::runtime {
namespace {

using ::testing::HasSubstr;

TEST(WireForecast, BytesOverBandwidth) {
  const auto rows = forecast_wire(
      {.nodes = 4, .compute_s = 2, .bytes_per_s = 10e6, .parameter_bytes = 40'000'000, .local_steps = 8});
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[0].mode, "exact");
  EXPECT_TRUE(rows[0].lossless);
  EXPECT_DOUBLE_EQ(rows[0].bytes, 0.75 * 80e6);
  EXPECT_DOUBLE_EQ(rows[0].step_s, 2 + 6);
  EXPECT_DOUBLE_EQ(rows[1].step_s, 2 + 0.75 * 6);
  EXPECT_DOUBLE_EQ(rows[2].step_s, rows[3].step_s);
  EXPECT_DOUBLE_EQ(rows[3].update_s, rows[3].step_s / 8);
  EXPECT_DOUBLE_EQ(rows[4].bytes, 0.75 * 10e6 * (4.5 / 8 + 4));
  for (size_t i = 1; i < rows.size(); ++i) EXPECT_FALSE(rows[i].lossless);
}

TEST(WireForecast, SaysWhyAndKeepsToExact) {
  WireMeasured slow{.nodes = 2, .compute_s = 0.1, .bytes_per_s = 12e6, .parameter_bytes = 40'000'000};
  EXPECT_THAT(wire_forecast_text(slow), HasSubstr("local-steps-int4 would be"));
  EXPECT_THAT(wire_forecast_text(slow), HasSubstr("only where wire_mode says so"));
  slow.bytes_per_s = 1e12;
  EXPECT_THAT(wire_forecast_text(slow), HasSubstr("exact loses nothing"));
  slow.bytes_per_s = 0;
  EXPECT_THAT(wire_forecast_text(slow), HasSubstr("nothing was sent yet"));
  EXPECT_TRUE(forecast_wire({.nodes = 1, .bytes_per_s = 1e6, .parameter_bytes = 4}).empty());
}

TEST(WireForecast, FromReports) {
  TrainingReport report;
  report.wire = "exact";
  report.parameter_bytes = 8000;
  report.steps_made = 10;
  report.plan.members.resize(2);
  for (const double compute : {1.0, 3.0}) {
    TrainMemberReport member;
    member.times.compute = compute;
    member.times.wire = 0.25;
    member.times.wait = 0.25 + (3 - compute);  // for the other one
    member.times.beside = compute / 30;
    member.gradient_bytes = member.gradient_bytes_sent = 40'000;
    member.weight_bytes = 40'000;
    member.weight_bytes_sent = 20'000;
    report.members.push_back(member);
  }
  const WireMeasured measured = wire_measured(report);
  EXPECT_EQ(measured.nodes, 2u);
  EXPECT_DOUBLE_EQ(measured.compute_s, 0.3);
  // Of the slower one: 60 KB in 0.6 s, of which 0.1 s went beside computing.
  EXPECT_DOUBLE_EQ(measured.bytes_per_s, 100'000);
  EXPECT_DOUBLE_EQ(measured.beside_s, 0.01);
  const auto rows = forecast_wire(measured);
  EXPECT_DOUBLE_EQ(rows[0].step_s,
                   0.3 + 0.06 - 0.01);  // 4 KB of gradients, 2 KB of weights: what was measured
  EXPECT_DOUBLE_EQ(measured.weight_ratio, 2);
  report.plan.stages.resize(2);
  EXPECT_TRUE(forecast_wire(wire_measured(report)).empty());
}

}  // namespace
}  // namespace butterfly::runtime
