#include "train/run_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/testing/temp_dir.h"

namespace butterfly::train {
namespace {

using Json = nlohmann::json;

Json status_of(const butterfly::testing::TempDir& folder, size_t points = 10) {
  return Json::parse(run_status_json(folder.path(), points));
}

std::string lines(size_t count) {
  std::string text;
  for (size_t i = 1; i <= count; ++i)
    text += Json({{"step", i},
                  {"loss", 9.0 / static_cast<double>(i)},
                  {"seconds", 0.5},
                  {"items_per_second", 100}})
                .dump() +
            "\n";
  return text;
}

TEST(RunFiles, ARunThatGoesOn) {
  butterfly::testing::TempDir folder;
  folder.write("run.json", R"({"name": "n", "steps": 40, "unit": "tokens"})");
  folder.write("metrics.jsonl", lines(30) + R"({"step": 31, "loss": 0.1, "eval_loss": 0.2, "seconds": 0.5})"
                                            "\n"
                                            R"({"step": 3)");
  folder.write("run.lock", std::to_string(::getpid()) + "\n");
  folder.write("nodes.json", R"({"lost": 1, "nodes": [{"name": "a", "micro_batches": 3}]})");
  const Json json = status_of(folder);
  EXPECT_EQ(json["state"], "running");
  EXPECT_EQ(json["step"], 31);
  EXPECT_DOUBLE_EQ(json["seconds_left"].get<double>(), 4.5);
  EXPECT_LE(json["points"].size(), 12u);
  EXPECT_EQ(json["points"].back(), Json({31, 0.1, 0.2, nullptr}));
  EXPECT_EQ(json["nodes"][0]["name"], "a");
  EXPECT_EQ(json["lost"], 1);
  folder.write("run.wish", "pause\n");
  EXPECT_EQ(status_of(folder)["state"], "paused");
}

TEST(RunFiles, ARunThatEnded) {
  butterfly::testing::TempDir folder;
  folder.write("run.json", R"({"steps": 30})");
  folder.write("metrics.jsonl", lines(29));
  EXPECT_EQ(status_of(folder)["state"], "stopped");
  folder.write("metrics.jsonl", lines(30));
  EXPECT_EQ(status_of(folder)["state"], "done");
}

TEST(RunFiles, DamagedFilesLeaveSomethingOut) {
  butterfly::testing::TempDir folder;
  EXPECT_THROW(run_status_json(folder.path(), 10), Error);
  folder.write("run.json", "[1");
  folder.write("metrics.jsonl", "{}\nnull\n{\"step\": \"x\", \"loss\": 1}\n{\"step\": -1, \"loss\": 1}\n");
  folder.write("nodes.json", "{\"nodes\": 7}");
  folder.write("run.lock", "../self\n");
  const Json json = status_of(folder);
  EXPECT_EQ(json["points"], Json::array());
  EXPECT_EQ(json["nodes"], Json::array());
  EXPECT_EQ(json["state"], "stopped");
}

}  // namespace
}  // namespace butterfly::train
