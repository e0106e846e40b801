// The picture of a run's losses.
#include "train/loss_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace butterfly::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Points of the i-th curve.
std::string curve(const std::string& svg, size_t index) {
  size_t at = 0;
  for (size_t i = 0; i <= index; ++i) at = svg.find("<polyline points=\"", at) + 18;
  return svg.substr(at, svg.find('"', at) - at);
}

TEST(LossPlot, TheSmoothCurveDoesNotLag) {
  std::vector<MetricsLine> lines;
  for (uint64_t step = 1; step <= 400; ++step)
    lines.push_back(
        {.step = step, .loss = std::exp(-0.01 * static_cast<double>(step)), .valid = {}, .valid_right = {}});
  const std::string svg = loss_plot(lines);
  EXPECT_EQ(curve(svg, 1), curve(svg, 0));  // a straight line on a logarithmic axis, and so is its mean
  EXPECT_THAT(svg, HasSubstr("training 0.0193"));  // of the last eleven: the last is 0.0183
  EXPECT_THAT(svg, Not(HasSubstr("validation")));
}

TEST(LossPlot, TheSmoothCurveDoesNotEndAtAnOutlier) {
  std::vector<MetricsLine> lines;
  for (uint64_t step = 1; step <= 400; ++step)
    lines.push_back({.step = step, .loss = step == 400 ? 0.01 : 1.0, .valid = {}, .valid_right = {}});
  const std::string svg = loss_plot(lines);
  const auto last_y = [&](size_t index) {
    const std::string points = curve(svg, index);
    return std::stod(points.substr(points.rfind(',') + 1));
  };
  const double exact = last_y(0), smooth = last_y(1),
               top = std::stod(curve(svg, 0).substr(curve(svg, 0).find(',') + 1));
  EXPECT_LT(smooth - top, 0.5 * (exact - top));
}

TEST(LossPlot, ValidationIsInTheLegend) {
  const std::vector<MetricsLine> lines = {{.step = 1, .loss = 2, .valid = 1.5, .valid_right = 0.25},
                                          {.step = 2, .loss = 1, .valid = 1.25, .valid_right = 0.5}};
  EXPECT_THAT(loss_plot(lines), HasSubstr("validation 1.2500, 50.00 % right"));
  EXPECT_THAT(loss_plot({}), HasSubstr("no steps yet"));
}

}  // namespace
}  // namespace butterfly::train
