// How a run stands, as JSON, as a table and as metrics.
#include "cli/nodes/train_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace butterfly::cli {
namespace {

using ::testing::HasSubstr;

runtime::TrainingReport report() {
  runtime::TrainingReport report;
  report.step = 7;
  report.wire = "int8";
  report.plan.slots = 4;
  report.counters.lost = 2;
  for (uint32_t i = 0; i < 3; ++i) {
    runtime::TrainMemberReport member;
    member.id = i;
    member.name = i == 1 ? "odd \"name\"" : "node-" + std::to_string(i);
    member.leaves = 10 * (i + 1);
    member.times = {.compute = 1.0 + i, .wait = 1, .other = 0.5, .beside = 0.25};
    member.gradient_bytes = 4000;
    member.gradient_bytes_sent = 1000;
    member.packing_gradients = "off";
    member.packing_weights = "zstd: link 12 MB/s";
    report.members.push_back(member);
  }
  return report;
}

TEST(TrainReport, TimesAndBytesOfEveryNode) {
  const std::string text = training_report_json(report(), 100, "paused");
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["state"], "paused");
  EXPECT_EQ(json["wire_slots"], 4);
  EXPECT_EQ(json["nodes"][1]["seconds"]["compute"], 2.0);
  EXPECT_DOUBLE_EQ(json["nodes"][0]["micro_batches_per_s"], 10 / 2.5);
  const std::string table = training_report_text(text);
  EXPECT_THAT(table, HasSubstr("paused: step 7 of 100"));
  EXPECT_THAT(table, HasSubstr("median"));
  EXPECT_THAT(table, HasSubstr("int8 in 4 slots, which is not the result of exact sums"));
  EXPECT_THAT(table, HasSubstr("4.00 x smaller"));
  EXPECT_THAT(table, HasSubstr("weights zstd: link 12 MB/s"));
  EXPECT_THAT(table, HasSubstr("beside computing: 0.25 s"));
}

TEST(TrainReport, MetricsArePrometheusText) {
  const std::string metrics = training_report_metrics(training_report_json(report(), 100, "running"));
  EXPECT_THAT(metrics, HasSubstr("# TYPE butterfly_train_step gauge\nbutterfly_train_step 7\n"));
  EXPECT_THAT(metrics, HasSubstr("{node=\"odd \\\"name\\\"\",member=\"1\",what=\"compute\"} 2.000000\n"));
  EXPECT_THAT(metrics, HasSubstr("seconds_beside_total{node=\"node-0\",member=\"0\"} 0.250000\n"));
  EXPECT_THAT(metrics,
              HasSubstr("butterfly_train_gradient_sent_bytes_total{node=\"node-0\",member=\"0\"} 1000\n"));
}

TEST(TrainReport, OtherTextIsRefused) {
  EXPECT_THROW(training_report_text("{}"), Error);
  EXPECT_THROW(training_report_metrics("[1]"), Error);
}

}  // namespace
}  // namespace butterfly::cli
