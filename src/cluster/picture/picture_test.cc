// Pictures are well-formed, say what they show, and keep inside their frame.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "base/svg.h"
#include "cluster/picture/gantt_picture.h"
#include "cluster/picture/plan_picture.h"
#include "cluster/sim/sim_cluster.h"
#include "cluster/testing/random_problem.h"

namespace butterfly::cluster {
namespace {

using ::testing::HasSubstr;

// Every element that is opened is closed, and no bar ends outside the frame.
void expect_sound(const std::string& svg, size_t bars_min = 1) {
  std::smatch size;
  ASSERT_TRUE(std::regex_search(svg, size, std::regex("width=\"(\\d+)\" height=\"(\\d+)\"")));
  const double width = std::stod(size[1]), height = std::stod(size[2]);
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-z]+)([^<>]*?)(/?)>");
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), tag); it != std::sregex_iterator(); ++it) {
    const std::string name = (*it)[2];
    if ((*it)[1] == "/") {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), name);
      open.pop_back();
    } else if ((*it)[4] != "/") {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty());
  const std::regex rect("<rect x=\"([-0-9.]+)\" y=\"([-0-9.]+)\" width=\"([-0-9.]+)\" height=\"([-0-9.]+)\"");
  size_t bars = 0;
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), rect); it != std::sregex_iterator();
       ++it, ++bars) {
    const double x = std::stod((*it)[1]), y = std::stod((*it)[2]), w = std::stod((*it)[3]),
                 h = std::stod((*it)[4]);
    EXPECT_GE(x, 0);
    EXPECT_GE(w, 0);
    EXPECT_LE(x + w, width);
    EXPECT_GE(y, 0);
    EXPECT_LE(y + h, height);
  }
  EXPECT_GE(bars, bars_min);
}

TEST(Picture, PlanAndGantt) {
  auto shape = testing::RandomProblemShape{.nodes = 6, .pieces = 34, .memory_factor = 1.5};
  ClusterSpec cluster = testing::random_cluster(shape, 4);
  cluster.nodes[0].name = "a <strange> & \"long\" name that does not fit anywhere";
  const Problem problem(testing::random_pieces(shape, 4), cluster, {.objective = Objective::kThroughput});
  const auto planned = make_plan(problem, find_strategy("optimal"));
  ASSERT_TRUE(planned.ok()) << planned.status().text();
  const std::string plan = plan_picture(problem, *planned);
  expect_sound(plan);
  EXPECT_THAT(plan, HasSubstr("tokens/s"));
  for (const Stage& stage : planned->plan.stages) {
    if (stage.nodes[0] == 0) continue;
    EXPECT_THAT(plan, HasSubstr(cluster.nodes[stage.nodes[0]].name));
  }

  const SimCluster sim = sim_cluster(problem, planned->plan);
  Workload w;
  w.clients = 4;
  w.requests = 10;
  w.prompt_min = w.prompt_max = 32;
  w.failures = {{.stage = 1, .at_s = 0.5, .recovery_s = 0.2}};
  const SimReport report = simulate(sim, w, {.intervals_max = 300});
  const std::string gantt = gantt_picture(sim, report, "A & B");
  expect_sound(gantt);
  EXPECT_THAT(gantt, HasSubstr("A &amp; B"));
  SimReport empty;
  empty.stages.resize(sim.stages.size());
  expect_sound(gantt_picture(sim, empty, "empty"), 0);
}

TEST(Picture, EscapesWhatBreaksXml) {
  EXPECT_EQ(svg_escape("<a & \"b\">\n"), "&lt;a &amp; &quot;b&quot;&gt; ");
}

}  // namespace
}  // namespace butterfly::cluster
