// Files that cannot be run: what `show` says of them is what loading them says.
#include "model/arch/why_not_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "base/testing/temp_dir.h"
#include "base/thread_pool.h"
#include "model/arch/network.h"
#include "model/formats/gguf_writer.h"
#include "model/synthetic/random_model.h"

namespace butterfly::model {
namespace {

using ::testing::HasSubstr;

class WhyNotRun : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.vocabulary_size = 320;
    options_.embedding_length = 64;
    options_.feed_forward_length = 64;
    options_.head_count = 4;
    options_.head_count_kv = 2;
    options_.block_count = 3;
  }

  // The model with other metadata, without one tensor, or with one of another shape.
  ModelFile changed(const std::function<void(Metadata&)>& edit, const std::string& without = "",
                    const std::string& cut = "") {
    write_random_model(folder_ / "sound.gguf", options_);
    const ModelFile sound = open_model(folder_ / "sound.gguf");
    Metadata metadata = sound.metadata();
    edit(metadata);
    GgufWriter writer(std::move(metadata));
    for (const NamedTensor& tensor : sound.tensors()) {
      if (tensor.name == without) continue;
      const Tensor values = sound.tensor(tensor.name);
      writer.add_tensor(tensor.name, tensor.name == cut ? values.slice(0, 0, values.size(0) / 2) : values);
    }
    writer.write(folder_ / "changed.gguf");
    return open_model(folder_ / "changed.gguf");
  }

  // As a run would, all layers and all values.
  static std::string load_error(const ModelFile& file) {
    try {
      ThreadPool pool(1);
      WeightLoader weights(file, pool);
      const ModelConfig config = read_config(file);
      architecture_of(file).load(config, weights, {0, config.layers});
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  void expect_refused(const ModelFile& file, std::string_view words) {
    const std::string reason = why_not_run(file);
    EXPECT_THAT(reason, HasSubstr(std::string(words)));
    EXPECT_THAT(reason, HasSubstr("changed.gguf")) << "names no file";
    EXPECT_EQ(reason, load_error(file));
  }

  RandomModelOptions options_;
  butterfly::testing::TempDir folder_;
};

TEST_F(WhyNotRun, EverySoundModelRuns) {
  for (const RandomArchitecture& row : random_architectures()) {
    options_.architecture = row.name;
    options_.block_count = row.layers;
    EXPECT_EQ(why_not_run(changed([](Metadata&) {})), "") << row.name;
  }
}

TEST_F(WhyNotRun, EveryTensorIsMissed) {
  const auto nothing = [](Metadata&) {};
  for (const char* name :
       {"token_embd.weight", "output_norm.weight", "blk.0.attn_norm.weight", "blk.1.attn_q.weight",
        "blk.1.attn_k.weight", "blk.1.attn_v.weight", "blk.2.attn_output.weight", "blk.2.ffn_norm.weight",
        "blk.2.ffn_gate.weight", "blk.2.ffn_up.weight", "blk.2.ffn_down.weight"}) {
    expect_refused(changed(nothing, name), name);
    expect_refused(changed(nothing, "", name),
                   name == std::string("token_embd.weight") ? "output.weight" : name);
  }
}

TEST_F(WhyNotRun, RopesThatMakeNoSenseNameTheFile) {
  const auto set = [](const char* key, MetaValue value) {
    return [key, value](Metadata& metadata) { metadata.set(key, value); };
  };
  expect_refused(changed(set("llama.rope.scaling.type", std::string("spiral"))), "rope scaling spiral");
  expect_refused(changed(set("llama.rope.freq_base", 0.5f)), "base 0.5 must be above 1");
  expect_refused(changed(set("llama.rope.dimension_count", uint32_t{7})), "must be even");
  expect_refused(changed(set("llama.rope.scaling.factor", -1.0f)), "factor -1 must be positive");
}

TEST_F(WhyNotRun, TokenizersAreLookedAt) {
  const ModelFile file = changed([](Metadata& metadata) {
    metadata.set("tokenizer.ggml.scores", f32_array({1, 2, 3}));
  });
  EXPECT_THAT(why_not_run(file), HasSubstr("tokenizer.ggml.scores"));
}

}  // namespace
}  // namespace butterfly::model
