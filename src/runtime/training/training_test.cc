// Training runs of several members in one process, over links in memory and over TCP: the model file of one
// machine, whoever shared the work, was lost in the middle of it or came later.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "base/testing/temp_dir.h"
#include "runtime/training/testing/train_nodes.h"
#include "runtime/training/training_leader.h"
#include "train/testing/tiny_runs.h"

namespace butterfly::runtime {
namespace {

using train::RunProgress;
using train::TrainConfig;
using train::TrainRun;

struct TrainingTest : ::testing::Test {
  explicit TrainingTest(bool tcp = false) : nodes(tcp) {}
  // A transformer on texts.
  TrainConfig text_config(const std::string& out) {
    train::testing::write_tiny_texts(dir);
    TrainConfig c = train::testing::tiny_text_config(dir, out);
    c.gradient_accumulation_steps = 7;
    c.wire_bucket_bytes = 4096;  // several for every shard
    c.max_steps = 12;
    c.weight_decay = 0.1;
    c.export_type = "F32";
    return c;
  }
  // An image network with statistics.
  TrainConfig image_config(const std::string& out) {
    train::testing::write_corner_images(dir);
    dir.write("net.toml",
              "input = [4, 4, 1]\n[[layer]]\ntype = 'conv2d'\nout = 4\nkernel = 2\n[[layer]]\n"
              "type = 'batch_norm'\n[[layer]]\ntype = 'relu'\n[[layer]]\ntype = 'linear'\nout = 4\n");
    TrainConfig c;
    c.model.network = (dir / "net.toml").string();
    c.datasets = {(dir / "some-images-idx3-ubyte").string()};
    c.micro_batch_size = 4;
    c.gradient_accumulation_steps = 5;
    c.max_steps = 12;
    c.learning_rate = 2e-2;
    c.threads = 1;
    c.output_dir = (dir / out).string();
    return c;
  }
  static std::string alone(const TrainConfig& config) {
    TrainRun run(config);
    return read_text_file(run.run([](const RunProgress&) { return true; }).model);
  }
  // `after` is called after each step, with its number.
  std::string together(const TrainConfig& config, size_t others, uint64_t shard_bytes_min,
                       const std::function<void(uint64_t step)>& after = {}) {
    TrainRun run(config);
    TrainingLeader leader({.run = &run,
                           .nodes = [this] { return nodes.up(); },
                           .connect = nodes.connect(),
                           .nodes_wanted = others,
                           .snapshot_every = 4,
                           .shard_bytes_min = shard_bytes_min});
    const auto result = run.run(
        [&](const RunProgress& progress) {
          if (after) after(progress.step);
          return true;
        },
        &leader);
    report = leader.report();
    return read_text_file(result.model);
  }

  butterfly::testing::TempDir dir;
  testing::TrainNodes nodes;
  TrainingReport report;
};

constexpr uint64_t kOneOwner = 1 << 30, kManyOwners = 256;

// Over TCP the computing thread reads small messages itself.
struct TrainingOver : TrainingTest, ::testing::WithParamInterface<const char*> {
  TrainingOver() : TrainingTest(GetParam() == std::string("tcp")) {}
};
INSTANTIATE_TEST_SUITE_P(Links, TrainingOver, ::testing::Values("memory", "tcp"),
                         [](const auto& it) { return std::string(it.param); });

TEST_P(TrainingOver, TheModelFileIsThatOfOneMachine) {
  for (const bool text : {true, false}) {
    const auto config = [&](const std::string& out) {
      return text ? text_config("text-" + out) : image_config("image-" + out);
    };
    const std::string expected = alone(config("alone"));
    ASSERT_GT(expected.size(), 500u);
    EXPECT_TRUE(together(config("only-leader"), 0, kManyOwners) == expected);
    size_t others = 0;
    for (const size_t wanted : {1, 2, 4}) {
      while (others < wanted) nodes.start("n" + std::to_string(others++));
      for (const uint64_t shard_bytes : {kOneOwner, kManyOwners}) {
        const std::string out = std::to_string(wanted) + "-" + std::to_string(shard_bytes);
        EXPECT_TRUE(together(config(out), others, shard_bytes) == expected) << out << " text " << text;
        EXPECT_EQ(report.plan.members.size(), others + 1);
        EXPECT_EQ(report.plan.shards.size() > 1, shard_bytes == kManyOwners);
        EXPECT_EQ(report.counters.differing, 0u);
      }
    }
    while (others > 0) nodes.end("n" + std::to_string(--others));
  }
}

TEST_P(TrainingOver, NodesThatEndAndOthersThatComeDoNotShow) {
  const std::string expected = alone(text_config("alone"));
  for (const uint64_t shard_bytes : {kOneOwner, kManyOwners}) {
    for (const char* name : {"a", "b", "c"}) nodes.start(name);
    const std::string out = "changes-" + std::to_string(shard_bytes);
    std::thread ending;
    EXPECT_TRUE(together(text_config(out), 3, shard_bytes,
                         [&](uint64_t step) {
                           // Beside the steps, wherever that hits them.
                           if (step == 3) ending = std::thread([&] { nodes.end("b"); });
                           if (step == 6) nodes.start("d");
                           if (step == 9) {
                             ending.join();
                             nodes.end("a");
                           }
                         }) == expected)
        << out;
    EXPECT_GE(report.counters.lost, 2u);
    EXPECT_EQ(report.counters.rollbacks > 0, shard_bytes == kManyOwners);
    for (const char* name : {"c", "d"}) nodes.end(name);
  }
}

// Stopped after a checkpoint, a run goes on alone, or with others than before.
TEST_F(TrainingTest, CheckpointsAreThoseOfOneMachine) {
  const std::string expected = alone(text_config("alone"));
  TrainConfig config = text_config("stopped");
  for (const char* name : {"a", "b"}) nodes.start(name);
  for (const uint64_t stop : {3u, 7u}) {
    TrainRun run(config);
    TrainingLeader leader({.run = &run,
                           .nodes = [this] { return nodes.up(); },
                           .connect = nodes.connect(),
                           .nodes_wanted = 2,
                           .snapshot_every = 100,
                           .shard_bytes_min = kManyOwners});
    const auto part = run.run([&](const RunProgress& progress) { return progress.step < stop; }, &leader);
    EXPECT_FALSE(part.finished);
    EXPECT_EQ(part.step, stop);
  }
  EXPECT_TRUE(alone(config) == expected);
}

// Gradients in fewer bits: the weights depend on mode and slots, not on who computed what, was lost or came.
TEST_F(TrainingTest, LossyModesHaveOneResultToo) {
  std::set<std::string> files;
  for (const bool text : {true, false}) {
    const auto base = [&](const std::string& out) {
      return text ? text_config("text-" + out) : image_config("image-" + out);
    };
    files.insert(alone(base("exact")));
    for (const std::string mode : {"bf16", "int8", "local-steps", "local-steps-int4"}) {
      const bool local = mode.starts_with("local-steps");
      if (!text && local) continue;  // statistics are no weights
      const auto config = [&](const std::string& out) {
        TrainConfig c = base(out + mode);
        c.wire_mode = mode;
        c.wire_slots = 4;
        if (local) {
          c.gradient_accumulation_steps = 8;
          c.local_steps = 2;
        }
        return c;
      };
      const std::string expected = alone(config("alone-"));
      EXPECT_TRUE(files.insert(expected).second) << mode;  // another one than the exact and the other mode's
      for (const char* name : {"a", "b", "c"}) nodes.start(name);
      for (const uint64_t shard_bytes : {kOneOwner, kManyOwners}) {
        const std::string out = std::to_string(shard_bytes);
        EXPECT_TRUE(together(config(out), 3, shard_bytes) == expected) << mode << " " << out << " " << text;
        EXPECT_EQ(report.wire, mode);
        EXPECT_EQ(report.plan.slots, text ? 4u : 3u);  // of 7 and of 5 micro-batches
        uint64_t floats = 0, sent = 0;
        for (const TrainMemberReport& member : report.members) {
          floats += member.gradient_bytes;
          sent += member.gradient_bytes_sent;
        }
        EXPECT_GT(sent, 0u);
        // Of a few hundred values, statistics and gaps between parameters show.
        EXPECT_LT(sent, floats *
                            (!text                        ? 100
                             : mode == "local-steps-int4" ? 18
                             : mode != "bf16"             ? 30
                                                          : 55) /
                            100);
      }
      std::thread ending;
      EXPECT_TRUE(together(config("changes-"), 3, kManyOwners,
                           [&](uint64_t step) {
                             if (step == 3) ending = std::thread([&] { nodes.end("b"); });
                             if (step == 6) nodes.start("d");
                           }) == expected)
          << mode << " " << text;
      ending.join();
      EXPECT_GE(report.counters.lost, 1u);
      for (const char* name : {"a", "c", "d"}) nodes.end(name);
    }
  }
}

// Who is late ends its local steps early: the weights depend on time then, but are the same on all nodes, as
// the hashes of every fourth step say, and the network learns. With a grace that nobody needs all is as
// always.
TEST_F(TrainingTest, AQuorumCutsOthersShort) {
  const auto config = [&](const std::string& out, double quorum, double grace) {
    TrainConfig c = text_config(out);
    c.wire_mode = "local-steps";
    c.wire_slots = 4;
    c.local_steps = 4;
    c.gradient_accumulation_steps = 16;
    c.max_steps = 24;
    c.merge_quorum = quorum;
    c.merge_grace = grace;
    return c;
  };
  const std::string expected = alone(config("alone", 0.25, 0));
  for (const char* name : {"a", "b", "c"}) nodes.start(name);
  EXPECT_TRUE(together(config("patient", 0.5, 1000), 3, kManyOwners) == expected);
  EXPECT_EQ(report.counters.cut_short, 0u);
  const std::string hasty = together(config("hasty", 0.25, 0), 3, kManyOwners);
  EXPECT_EQ(report.counters.differing, 0u);
  EXPECT_EQ(report.step, 24u);
  if (report.counters.cut_short == 0) {
    EXPECT_TRUE(hasty == expected);
  }
}

// Lossless, so it shows in the bytes of links alone.
TEST_F(TrainingTest, CompressedValuesAreTheSame) {
  nodes.start("a");
  nodes.start("b");
  for (const char* mode : {"exact", "bf16", "int8"}) {
    const auto config = [&](const std::string& compress) {
      TrainConfig c = text_config(mode + compress);
      c.wire_mode = mode;
      c.wire_slots = 3;
      c.wire_compress = compress;
      c.wire_compress_min_bytes = 1000;
      return c;
    };
    const std::string expected = alone(config("off"));
    for (const char* compress : {"lz4", "lz4-frame", "zstd", "auto"}) {
      EXPECT_TRUE(together(config(compress), 2, kManyOwners) == expected) << mode << " " << compress;
      uint64_t plain = 0, sent = 0;
      for (const TrainMemberReport& member : report.members) {
        plain += member.weight_bytes;
        sent += member.weight_bytes_sent;
        EXPECT_FALSE(member.packing_weights.empty());
      }
      EXPECT_GT(plain, 0u);
      if (compress == std::string("zstd")) {
        EXPECT_LT(sent, plain * 97 / 100);
      }
    }
  }
}

// Residuals are a part of checkpoints: stopped, a run goes on alone or with others.
TEST_F(TrainingTest, LossyRunsGoOnFromCheckpoints) {
  std::string mode;
  const auto config = [&](const std::string& out) {
    TrainConfig c = text_config(out + mode);
    c.wire_mode = mode;
    c.wire_slots = 4;
    c.local_steps = 2;
    c.gradient_accumulation_steps = 8;
    return c;
  };
  for (const char* name : {"a", "b"}) nodes.start(name);
  for (const char* each : {"int8", "local-steps-int4"}) {
    mode = each;
    const std::string expected = alone(config("alone"));
    {
      TrainRun run(config("stopped"));
      run.run([&](const RunProgress& progress) { return progress.step < 2; });
    }
    for (const uint64_t stop : {5u, 8u}) {
      TrainRun run(config("stopped"));
      TrainingLeader leader({.run = &run,
                             .nodes = [this] { return nodes.up(); },
                             .connect = nodes.connect(),
                             .nodes_wanted = 2,
                             .snapshot_every = 100,
                             .shard_bytes_min = kManyOwners});
      const auto part = run.run([&](const RunProgress& progress) { return progress.step < stop; }, &leader);
      EXPECT_EQ(part.step, stop);
    }
    EXPECT_TRUE(alone(config("stopped")) == expected) << mode;
  }
  TrainConfig other = config("stopped");
  other.wire_slots = 2;
  try {
    TrainRun run(other);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("wire_slots = 4, now it is 2"));
  }
}

TEST_F(TrainingTest, WhatIsNotFiniteEndsTheRunInWords) {
  TrainConfig config = text_config("nan");
  config.learning_rate = 1e38;
  config.max_grad_norm = 0;
  nodes.start("a");
  try {
    together(config, 1, kOneOwner);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("not finite"));
  }
}

TEST_F(TrainingTest, WhatDoesNotFitIntoAMessageIsRefusedInWords) {
  TrainRun run(text_config("large"));
  try {
    TrainingLeader leader({.run = &run,
                           .nodes = [this] { return nodes.up(); },
                           .connect = nodes.connect(),
                           .values_bytes_max = 100'000});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("a message between nodes has at most"));
  }
}

// Only the coordinator leads.
TEST_F(TrainingTest, AnotherNodeLeadsNothing) {
  nodes.start("a");
  TrainConfig config = text_config("stranger");
  TrainRun run(config);
  TrainingLeader leader({.run = &run,
                         .nodes = [this] { return nodes.up(); },
                         .connect =
                             [this](const std::string& address, const std::string&) {
                               return nodes.connect_as({"key-other", "other"}, address);
                             },
                         .nodes_wanted = 1,
                         .nodes_wait = std::chrono::milliseconds(300)});
  run.run([](const RunProgress&) { return true; }, &leader);
  EXPECT_EQ(leader.report().plan.members.size(), 1u);
}

}  // namespace
}  // namespace butterfly::runtime
