// The library as its users see it: standard types in, standard types out, errors in words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <stdexcept>

#include "base/testing/source_tree.h"
#include "base/testing/temp_dir.h"
#include "butterfly/cluster.h"
#include "butterfly/model.h"
#include "butterfly/training.h"

namespace butterfly {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string caterpillar() { return (source_path() / "models/caterpillar.gguf").string(); }

// What `call` throws, in words; empty: nothing.
template <typename Call>
std::string thrown(Call call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

Cluster three_nodes() {
  Cluster cluster({.latency_ms = 0.2, .gbit_per_s = 1});
  cluster.add({.name = "server", .gflops = 800, .memory_gb_per_s = 40, .ram_gb = 0.8, .threads = 16});
  cluster.add({.name = "laptop", .gflops = 300, .memory_gb_per_s = 30, .ram_gb = 0.6, .threads = 8});
  cluster.add({.name = "board", .gflops = 60, .memory_gb_per_s = 8, .ram_gb = 0.45, .threads = 4});
  return cluster;
}
const Transformer kModel{.layers = 24, .dim = 2048, .heads = 16, .context = 2048};

TEST(LibraryModel, TextsAndPiecesAreTheSame) {
  Model model = Model::load(caterpillar(), {.threads = 1});
  EXPECT_EQ(model.architecture(), "llama");
  std::string pieces;
  const auto collect = [&](const std::string& piece) {
    pieces += piece;
    return true;
  };
  const Answer answer = model.generate("Once upon a time", {.tokens_max = 12, .temperature = 0}, collect);
  EXPECT_EQ(answer.tokens, 12u);
  EXPECT_EQ(answer.text, pieces);
  EXPECT_EQ(answer.finish, "length");
  const Answer again = model.generate("Once upon a time", {.tokens_max = 12, .temperature = 0});
  EXPECT_EQ(again.text, answer.text);
  EXPECT_EQ(model.detokenize(model.tokenize("a red kite")), "a red kite");
}

TEST(LibraryModel, AnswersAConversationAndStopsWhenAsked) {
  Model model = Model::load(caterpillar(), {.threads = 1});
  const std::vector<Message> messages = {{"user", "What is 7 plus 5?"}};
  EXPECT_EQ(model.chat(messages, {.temperature = 0}).text, "It is 12.");
  // Pieces are what has come since the last one: of a short answer the first may be all.
  std::vector<std::string> pieces;
  const Answer cut = model.chat(messages, {.temperature = 0}, [&](const std::string& piece) {
    pieces.push_back(piece);
    return false;
  });
  ASSERT_EQ(pieces.size(), 1u) << "nothing comes behind the one that it stopped at";
  EXPECT_EQ(cut.text, pieces[0]);
}

TEST(LibraryModel, ErrorsAreInWords) {
  EXPECT_THAT(thrown([] { Model::load("/nowhere/x.gguf"); }), HasSubstr("/nowhere/x.gguf"));
  Model model = Model::load(caterpillar(), {.threads = 1});
  EXPECT_THAT(thrown([&] { model.generate("a", {.temperature = std::nanf("")}); }), HasSubstr("temperature"));
}

TEST(LibraryCluster, PartsCoverAllLayersAndFit) {
  const Cluster cluster = three_nodes();
  for (const std::string& strategy : Cluster::strategies()) {
    const Partition plan = cluster.partition(kModel, strategy);
    EXPECT_EQ(plan.strategy(), strategy);
    size_t next = 0;
    for (const Part& part : plan.parts()) {
      EXPECT_EQ(part.first_layer, next);
      next += part.layer_count;
      EXPECT_LE(part.memory_gb, part.room_gb) << plan.text();
    }
    EXPECT_EQ(next, 24u) << plan.text();
    EXPECT_TRUE(plan.parts().front().embedding && plan.parts().back().head);
    EXPECT_GT(plan.quality().ms_per_token, 0);
    EXPECT_GE(plan.quality().gap, 0);
    EXPECT_THAT(plan.text(), HasSubstr("ms per token"));
  }
}

TEST(LibraryCluster, OptimalIsNotWorse) {
  const Cluster cluster = three_nodes();
  const double best = cluster.partition(kModel).quality().ms_per_token;
  for (const std::string& strategy : Cluster::strategies())
    EXPECT_LE(best, cluster.partition(kModel, strategy).quality().ms_per_token + 1e-9) << strategy;
}

TEST(LibraryCluster, SlowNodesAreRelieved) {
  Cluster cluster({.latency_ms = 0.1, .gbit_per_s = 10});
  for (const char* name : {"a", "b", "c"})
    cluster.add({.name = name, .ram_gb = 2, .threads = 4, .disk_gb_per_s = 2});
  const Partition plan = cluster.partition(kModel, "balanced", {.streams = 3});
  const Rebalanced same = plan.balance({});
  EXPECT_FALSE(same.move) << same.reason;
  const Rebalanced slow = plan.balance({{"c", 20.0}});
  EXPECT_TRUE(slow.move) << slow.reason;
  EXPECT_LT(slow.ms_after, slow.ms_before);
  EXPECT_THAT(thrown([&] { plan.balance({{"d", 2.0}}); }), HasSubstr("'d'"));
}

TEST(LibraryCluster, MoreClientsGetMoreTokens) {
  const Partition plan = three_nodes().partition(kModel);
  const Played one = plan.simulate({.requests = 20}), many = plan.simulate({.requests = 20, .clients = 8});
  EXPECT_GT(many.tokens_per_s, one.tokens_per_s);
  EXPECT_EQ(one.busy.size(), plan.parts().size());
}

TEST(LibraryCluster, ErrorsAreInWords) {
  EXPECT_THAT(thrown([] { Cluster().partition(kModel); }), HasSubstr("no nodes"));
  EXPECT_THAT(thrown([] { three_nodes().partition(kModel, "best"); }), HasSubstr("optimal"));
  EXPECT_THAT(thrown([] { three_nodes().partition(Transformer{.layers = 24, .dim = 100, .heads = 7}); }),
              HasSubstr("7 heads"));
  Cluster cluster = three_nodes();
  EXPECT_THAT(thrown([&] { cluster.add({.name = "board"}); }), HasSubstr("board"));
  EXPECT_THAT(thrown([&] { cluster.connect("board", "moon", {}); }), HasSubstr("'moon'"));
  EXPECT_THAT(thrown([&] { cluster.partition("llama-70b"); }), HasSubstr("do not fit"));
}

TEST(LibraryTraining, StepsLearnAndTheFileRuns) {
  testing::TempDir folder;
  std::string text;
  for (int i = 0; i < 60; ++i) text += "The owl lives in a tree and the frog lives in a pond. ";
  folder.write("text.txt", text);
  Training training("", {{"base_model", caterpillar()},
                         {"datasets", (folder.path() / "text.txt").string()},
                         {"max_steps", "3"},
                         {"sequence_len", "32"},
                         {"micro_batch_size", "2"},
                         {"threads", "1"},
                         {"output_dir", (folder.path() / "out").string()}});
  EXPECT_EQ(training.steps(), 3u);
  const double first = training.step().loss;
  training.step();
  EXPECT_LT(training.step().loss, first);
  EXPECT_TRUE(training.done());
  EXPECT_THAT(thrown([&] { training.step(); }), HasSubstr("all 3 steps are done"));
  const std::string file = training.save((folder.path() / "out").string());
  EXPECT_EQ(Model::load(file, {.threads = 1}).architecture(), "llama");
}

TEST(LibraryTraining, ErrorsAreInWords) {
  EXPECT_THAT(thrown([] { Training("", {{"learning_rat", "1"}}); }), HasSubstr("learning_rat"));
  EXPECT_THAT(thrown([] { Training("/nowhere.yml"); }), HasSubstr("/nowhere.yml"));
}

}  // namespace
}  // namespace butterfly
