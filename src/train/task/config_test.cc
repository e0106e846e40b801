// Config files: keys of nested maps, lists of data sets, paths, and errors that name file, line and key.
#include "train/task/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/temp_dir.h"

namespace butterfly::train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct ConfigTest : ::testing::Test {
  TrainConfig read(const std::string& text) {
    TrainConfig config;
    read_config_file(dir.write("cfg.yml", text), config);
    return config;
  }
  std::string error_of(const std::string& text) {
    try {
      read(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  butterfly::testing::TempDir dir;
};

TEST_F(ConfigTest, KeysListsAndNestedMaps) {
  const TrainConfig config = read(
      "learning_rate: 2e-4\nmodel:\n  hidden_size: 96\n  tie_word_embeddings: false\n"
      "datasets:\n  - path: a.jsonl\n    type: chat_template\n  - /data/b.txt\noutput_dir: out\nseed: 7\n"
      "train_on_inputs: false\nchat_template:\n");
  EXPECT_EQ(config.learning_rate, 2e-4);
  EXPECT_EQ(config.model.hidden_size, 96u);
  EXPECT_FALSE(config.model.tie_word_embeddings);
  EXPECT_FALSE(config.train_on_inputs);
  EXPECT_THAT(config.datasets, ElementsAre((dir / "a.jsonl").string(), "/data/b.txt"));
  EXPECT_EQ(config.output_dir, (dir / "out").string());
  EXPECT_EQ(config.seed, 7u);
  EXPECT_EQ(config.micro_batch_size, TrainConfig().micro_batch_size);
}

// A comma in the name of a file is a comma, in the file and on the way to other machines.
TEST_F(ConfigTest, PathsMayHaveCommas) {
  const TrainConfig config = read("datasets:\n  - 'a,b.jsonl'\n  - c.txt\n");
  EXPECT_THAT(config.datasets, ElementsAre((dir / "a,b.jsonl").string(), (dir / "c.txt").string()));
  EXPECT_EQ(config_of_text(config_text(config)).datasets, config.datasets);
  TrainConfig typed;
  set_config_value(typed, "datasets", "a\\,b,c");
  EXPECT_THAT(typed.datasets, ElementsAre("a,b", "c"));
}

TEST_F(ConfigTest, NamesOfOtherPrograms) {
  const TrainConfig config = read("train_on_inputs: true\nlr_scheduler_type: linear\nnum_train_epochs: 3\n");
  EXPECT_EQ(config.lr_scheduler, "linear");
  EXPECT_EQ(config.num_epochs, 3);
  const TrainConfig trl = read(
      "model_name_or_path: base.gguf\nper_device_train_batch_size: 3\noptim: adamw_torch\n"
      "lr_scheduler_type: constant_with_warmup\ntrain_file: a.jsonl\nmax_seq_length: 99\n");
  EXPECT_EQ(trl.base_model, (dir / "base.gguf").string());
  EXPECT_THAT(trl.datasets, ElementsAre((dir / "a.jsonl").string()));
  EXPECT_EQ(trl.micro_batch_size, 3u);
  EXPECT_EQ(trl.optimizer, "adamw");
  EXPECT_EQ(trl.lr_scheduler, "constant");
  EXPECT_EQ(trl.sequence_len, 99u);
  EXPECT_THAT(error_of("per_device_train_batch_sise: 1\n"), HasSubstr("'per_device_train_batch_size'"));
  TrainConfig of;
  EXPECT_THAT(read_config_file(dir.write("idle.yml", "bf16: auto\nseed: 3\nwandb_project:\n"), of),
              ElementsAre("bf16", "wandb_project"));
  EXPECT_EQ(of.seed, 3u);
}

TEST_F(ConfigTest, ImageKeys) {
  const TrainConfig config = read(
      "model:\n  network: net.toml\nimage_mean: [0.485, 0.456, 0.406]\nimage_std: 0.25\ndatasets: "
      "pictures\n");
  EXPECT_EQ(config.model.network, (dir / "net.toml").string());
  EXPECT_THAT(config.image_mean, ElementsAre(0.485, 0.456, 0.406));
  EXPECT_THAT(config.image_std, ElementsAre(0.25));
  EXPECT_THAT(config_text(config), HasSubstr("image_mean: 0.485,0.456,0.406\n"));
  check_config(config);
  EXPECT_THAT(error_of("image_mean: [0.1, x]\n"), HasSubstr("image_mean is 'x', expected a number"));
}

TEST_F(ConfigTest, AChatTemplateIsAFileBesideTheConfigOrTheTextItself) {
  dir.write("chat.jinja", "{{ messages }}");
  EXPECT_EQ(read("chat_template: chat.jinja\n").chat_template, (dir / "chat.jinja").string());
  EXPECT_EQ(read("chat_template: '{{ messages }}'\n").chat_template, "{{ messages }}");
  EXPECT_EQ(read("chat_template: other.jinja\n").chat_template, "other.jinja");
}

TEST_F(ConfigTest, MistakesAreNamed) {
  EXPECT_THAT(error_of("seed: 1\nlearning_rat: 1\n"),
              AllOf(HasSubstr("cfg.yml:2: "), HasSubstr("'learning_rat'")));
  EXPECT_THAT(error_of("seed: many\n"), HasSubstr("seed is 'many', expected a whole number"));
  EXPECT_THAT(error_of("seed: -1\n"), HasSubstr("seed is '-1'"));
  EXPECT_THAT(error_of("dropout: 0.1x\n"), HasSubstr("expected a number"));
  EXPECT_THAT(error_of("train_on_inputs: perhaps\n"), HasSubstr("expected true or false"));
  EXPECT_THAT(error_of("datasets:\n  - type: x\n"), HasSubstr("has no path"));
  EXPECT_THAT(error_of("a: [1\n"), HasSubstr("cfg.yml:"));
  EXPECT_THAT(error_of("just words\n"), HasSubstr("expected keys and values"));
}

TEST_F(ConfigTest, EveryKeyCanBeSetFromItsText) {
  TrainConfig config;
  set_config_value(config, "model.num_hidden_layers", "3");
  set_config_value(config, "datasets", "a,b");
  EXPECT_EQ(config.model.num_hidden_layers, 3u);
  EXPECT_THAT(config.datasets, ElementsAre("a", "b"));
  // What is printed can be read again, key by key.
  TrainConfig again;
  std::istringstream lines(config_text(config));
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    set_config_value(again, line.substr(0, colon), line.substr(colon + 2));
  }
  EXPECT_EQ(config_text(again), config_text(config));
}

TEST_F(ConfigTest, WhatCannotBeIsRefused) {
  TrainConfig config;
  EXPECT_THROW(check_config(config), Error);  // neither tokenizer nor network
  config.datasets = {"a"};
  config.tokenizer = "t";
  check_config(config);
  config.dropout = 1;
  EXPECT_THROW(check_config(config), Error);
}

TEST_F(ConfigTest, SettingsThatExcludeEachOtherAreNamed) {
  const auto error = [](auto change) -> std::string {
    TrainConfig config;
    config.tokenizer = "t";
    change(config);
    try {
      check_config(config);
    } catch (const Error& e) {
      return e.what();
    }
    return "fine";
  };
  EXPECT_EQ(error([](TrainConfig&) {}), "fine");
  EXPECT_THAT(error([](TrainConfig& c) { c.optimizer = "lion"; }),
              HasSubstr("'lion': expected one of adamw"));
  EXPECT_THAT(error([](TrainConfig& c) { c.nesterov = true; }),
              HasSubstr("nesterov: expected optimizer sgd"));
  EXPECT_THAT(error([](TrainConfig& c) {
                c.optimizer = "sgd";
                c.nesterov = true;
              }),
              HasSubstr("nesterov: expected a momentum above 0"));
  EXPECT_THAT(error([](TrainConfig& c) {
                c.optimizer = "sgd";
                c.bf16_moments = true;
              }),
              HasSubstr("bf16_moments: sgd has no moments"));
  const auto in_backward = [&](auto change) {
    return error([&](TrainConfig& c) {
      c.update_in_backward = true;
      c.max_grad_norm = 0;
      change(c);
    });
  };
  EXPECT_EQ(in_backward([](TrainConfig&) {}), "fine");
  EXPECT_THAT(in_backward([](TrainConfig& c) { c.max_grad_norm = 1; }), HasSubstr("max_grad_norm 0"));
  EXPECT_THAT(in_backward([](TrainConfig& c) { c.workers = 2; }), HasSubstr("workers 1"));
  EXPECT_THAT(in_backward([](TrainConfig& c) { c.gradient_accumulation_steps = 2; }),
              HasSubstr("gradient_accumulation_steps 1"));
}

}  // namespace
}  // namespace butterfly::train
