// `plan` and `simulate` as a user would start them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json_text.h"
#include "base/testing/temp_dir.h"
#include "cli/console/exit_code.h"
#include "cli/testing/run_captured.h"

namespace butterfly::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

struct PlanCommands : ::testing::Test {
  PlanCommands() {
    folder.write("c.toml", R"(
[net.wifi]
latency_ms = 3
bandwidth_mbit = 60
[[node]]
name = "desk"
threads = 8
memory_gb_s = 40
int8_gops = 900
ram = "24 GiB"
disk_gb_s = 2
[[node]]
name = "laptop"
memory_gb_s = 25
int8_gops = 400
ram = "12 GiB"
[[node]]
name = "pi"
memory_gb_s = 8
int8_gops = 60
ram = "7 GiB"
net = "wifi"
)");
    folder.write("w.toml", "requests = 40\nclients = 6\nprompt = 64\ngenerate = 20\n");
  }
  std::string path(const char* name) const { return (folder.path() / name).string(); }
  butterfly::testing::TempDir folder;
};

TEST_F(PlanCommands, ComparesAllStrategiesAndGivesReasons) {
  const Outcome out = run({"plan", "llama-8b", "--cluster", path("c.toml"), "--strategy", "all"});
  ASSERT_EQ(out.status, kExitOk) << out.err;
  for (const char* text : {"llama-8b: 34 pieces", "optimal", "annealing", "balanced", "uniform", "not split",
                           "pi left out", "embedding - head", "gap"})
    EXPECT_THAT(out.out, HasSubstr(text));
  // One stream's time and its rate are the same figure.
  std::istringstream lines(out.out.substr(out.out.find("\nbalanced ") + 1));
  std::string name;
  double ms = 0, one = 0, full = 0;
  lines >> name >> ms >> one >> full;
  EXPECT_NEAR(ms * one, 1000, 10) << out.out;
  EXPECT_GE(full, one * 0.99);
}

TEST_F(PlanCommands, PlansBigModelsForManyStreamsAndSimulatesThem) {
  const Outcome planned = run({"plan", "llama-8b", "--cluster", path("c.toml"), "--objective", "throughput",
                               "--streams", "6", "--json", "--svg", path("plan.svg")});
  ASSERT_EQ(planned.status, kExitOk) << planned.err;
  const json parsed = json_of_text<json>(planned.out);
  EXPECT_EQ(parsed["objective"], "throughput");
  EXPECT_EQ(parsed["streams"], 6);
  const json& plan = parsed["plans"][0];
  EXPECT_LT(plan["gap"].get<double>(), 1e-9);
  EXPECT_EQ(plan["stages"].back()["end"], parsed["pieces"]);
  EXPECT_TRUE(std::filesystem::exists(path("plan.svg")));
  folder.write("plan.json", planned.out);

  const Outcome table = run({"simulate", path("plan.json"), path("w.toml"), "--svg", path("gantt.svg")});
  ASSERT_EQ(table.status, kExitOk) << table.err;
  EXPECT_THAT(table.out, HasSubstr("first token"));
  EXPECT_THAT(table.out, HasSubstr("desk"));
  EXPECT_THAT(table.err, HasSubstr("million/s"));
  const Outcome report = run({"simulate", path("plan.json"), path("w.toml"), "--json"});
  ASSERT_EQ(report.status, kExitOk) << report.err;
  EXPECT_EQ(json_of_text<json>(report.out)["tokens"], 40 * 20);
  EXPECT_EQ(run({"simulate", path("plan.json"), path("w.toml"), "--json"}).out, report.out);
}

// What --out writes is the same plan for --plan, groups and their shares included.
TEST_F(PlanCommands, WritesAPlanForServe) {
  for (const char* groups : {"off", "2"}) {
    const Outcome made = run({"plan", "llama-8b", "--cluster", path("c.toml"), "--groups", groups, "--out",
                              path("out.toml"), "--json"});
    ASSERT_EQ(made.status, kExitOk) << made.err;
    const Outcome read =
        run({"plan", "llama-8b", "--cluster", path("c.toml"), "--plan", path("out.toml"), "--json"});
    ASSERT_EQ(read.status, kExitOk) << read.err;
    const json first = json_of_text<json>(made.out)["plans"][0],
               again = json_of_text<json>(read.out)["plans"][0];
    EXPECT_EQ(first["stages"].size(), again["stages"].size()) << groups;
    EXPECT_NEAR(first["tokens_per_s"].get<double>(), again["tokens_per_s"].get<double>(), 1e-6) << groups;
    EXPECT_EQ(made.err.find("serve --plan") == std::string::npos, false) << made.err;
  }
}

TEST_F(PlanCommands, ThisMachineAlone) {
  const Outcome out = run({"plan", "gpt2", "--json"});
  ASSERT_EQ(out.status, kExitOk) << out.err;
  const json parsed = json_of_text<json>(out.out);
  ASSERT_EQ(parsed["nodes"].size(), 1u);
  EXPECT_EQ(parsed["nodes"][0]["name"], "here");
  EXPECT_GT(parsed["plans"][0]["tokens_per_s"].get<double>(), 1);
}

TEST_F(PlanCommands, AFileOfOnesOwn) {
  const std::string model = path("m.gguf");
  ASSERT_EQ(run({"make-model", model, "--dim", "64", "--hidden", "96", "--layers", "2", "--heads", "4",
                 "--vocab", "600"})
                .status,
            kExitOk);
  EXPECT_THAT(run({"plan", model, "--cluster", path("c.toml")}).out, HasSubstr("m.gguf: 4 pieces"));
  folder.write("p.toml", "[[stage]]\nnode = 'laptop'\npieces = 1\n[[stage]]\nnode = 'desk'\npieces = 3\n");
  const Outcome custom = run({"plan", model, "--cluster", path("c.toml"), "--plan", path("p.toml")});
  EXPECT_THAT(custom.out, HasSubstr("custom:"));
  EXPECT_THAT(custom.out, HasSubstr("laptop"));
}

TEST_F(PlanCommands, SaysWhatIsWrong) {
  const Outcome big = run({"plan", "gpt3-175b", "--cluster", path("c.toml")});
  EXPECT_EQ(big.status, kExitFailure);
  EXPECT_THAT(big.err, HasSubstr("do not fit into 43.0 GiB on 3 nodes"));
  const Outcome unknown = run({"plan", "gpt9", "--cluster", path("c.toml")});
  EXPECT_EQ(unknown.status, kExitUsage);
  EXPECT_THAT(unknown.err, HasSubstr("or a shape: gpt2"));
  EXPECT_EQ(run({"plan", "gpt2", "--cluster", path("none.toml")}).status, kExitUsage);
  EXPECT_EQ(run({"plan", "gpt2", "--cluster", path("c.toml"), "--strategy", "best"}).status, kExitUsage);
  EXPECT_EQ(run({"plan", "gpt2", "--cluster", path("c.toml"), "--latency-limit", "5"}).status, kExitUsage);
  folder.write("bad.json", "{\"model\": 3}");
  const Outcome bad = run({"simulate", path("bad.json"), path("w.toml")});
  EXPECT_EQ(bad.status, kExitUsage);
  EXPECT_THAT(bad.err, HasSubstr("bad.json: expected a plan"));
}

}  // namespace
}  // namespace butterfly::cli
