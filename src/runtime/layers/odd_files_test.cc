// Files that differ from what make-model writes: matrices that are fused, blocks that are not run, numbers
// that nobody would apply.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/rng.h"
#include "base/testing/temp_dir.h"
#include "kernels/quant/nvfp4.h"
#include "runtime/testing/file_parts.h"
#include "runtime/testing/models.h"
#include "train/networks/transformer.h"

namespace butterfly::runtime {
namespace {

using butterfly::testing::TempDir;
using ::testing::HasSubstr;
using testing::Loaded;
using testing::logit_bits;
using testing::small_options;
using testing::some_tokens;

using Tensors = std::map<std::string, Tensor>;

using Parts = testing::FileParts;

struct OddFiles : ::testing::Test {
  void make(std::string_view architecture) {
    model::write_random_model(dir / "made.gguf", small_options(architecture, DType::kF32));
  }
  std::vector<uint32_t> bits(const char* name) {
    Loaded loaded(dir / name, 2, false);
    return logit_bits(loaded, some_tokens(40, 320), {40});
  }
  std::string error(const char* name) {
    try {
      Loaded(dir / name, 1, false);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
  TempDir dir;
};

TEST_F(OddFiles, ExpertsInOneMatrixAreThoseOfTwo) {
  make("qwen35moe");
  Parts parts(dir / "made.gguf");
  for (size_t layer = 0; layer < 5; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    const Tensor gate = parts.tensors.at(block + "ffn_gate_exps.weight"),
                 up = parts.tensors.at(block + "ffn_up_exps.weight");
    Tensor both = Tensor::zeros(DType::kF32, {gate.size(0), 2 * gate.size(1), gate.size(2)});
    const size_t bytes = gate.bytes() / static_cast<size_t>(gate.size(0));
    for (size_t e = 0; e < static_cast<size_t>(gate.size(0)); ++e) {
      std::memcpy(both.raw() + 2 * e * bytes, gate.raw() + e * bytes, bytes);
      std::memcpy(both.raw() + (2 * e + 1) * bytes, up.raw() + e * bytes, bytes);
    }
    parts.tensors.erase(block + "ffn_gate_exps.weight");
    parts.tensors.erase(block + "ffn_up_exps.weight");
    parts.tensors.emplace(block + "ffn_gate_up_exps.weight", both);
  }
  parts.write(dir / "fused.gguf");
  EXPECT_EQ(bits("fused.gguf"), bits("made.gguf"));
}

TEST_F(OddFiles, BlocksThatGuessAheadAreNotRun) {
  make("qwen35");
  Parts parts(dir / "made.gguf");
  for (const auto& [name, tensor] : Tensors(parts.tensors))
    if (name.starts_with("blk.3.")) parts.tensors["blk.5." + name.substr(6)] = tensor;
  parts.tensors["blk.5.nextn.enorm.weight"] = parts.tensors.at("output_norm.weight");
  parts.metadata.set("qwen35.block_count", uint32_t{6});
  parts.metadata.set("qwen35.nextn_predict_layers", uint32_t{1});
  parts.write(dir / "ahead.gguf");
  EXPECT_EQ(bits("ahead.gguf"), bits("made.gguf"));
  parts.metadata.set("qwen35.nextn_predict_layers", uint32_t{6});
  parts.write(dir / "none.gguf");
  EXPECT_THAT(error("none.gguf"), HasSubstr("qwen35.nextn_predict_layers: expected less than the 6 blocks"));
}

TEST_F(OddFiles, ListedLayersGoBeforeCountedOnes) {
  make("qwen35");
  Parts parts(dir / "made.gguf");
  parts.metadata.set("qwen35.full_attention_interval", uint32_t{2});
  parts.write(dir / "other.gguf");
  EXPECT_THAT(error("other.gguf"), HasSubstr("blk.1.attn_output.weight"));
  parts.metadata.set("qwen35.attention.recurrent_layers",
                     model::MetaArray{model::MetaType::kBool, std::vector<uint8_t>{1, 1, 1, 0, 1}});
  parts.write(dir / "listed.gguf");
  EXPECT_EQ(bits("listed.gguf"), bits("made.gguf"));
}

TEST_F(OddFiles, ScalesThatNobodyAppliesAreRefused) {
  make("llama");
  Parts parts(dir / "made.gguf");
  parts.tensors["blk.0.ffn_up.scale"] = parts.tensors.at("output_norm.weight");
  parts.write(dir / "scaled.gguf");
  EXPECT_THAT(error("scaled.gguf"), HasSubstr("tensor blk.0.ffn_up.scale"));
}

TEST_F(OddFiles, TheScaleOfAMatrixIsThatOfItsProduct) {
  make("qwen35");
  Parts parts(dir / "made.gguf");
  Tensor four = Tensor::zeros(DType::kF32, {1});
  four.data<float>()[0] = 4;
  for (const char* name : {"blk.0.ffn_up", "blk.1.attn_qkv", "blk.2.ffn_down", "blk.3.attn_q", "output"}) {
    Tensor& weight = parts.tensors.at(std::string(name) + ".weight");
    Tensor quarter = Tensor::zeros(DType::kF32, weight.shape());
    for (int64_t i = 0; i < weight.count(); ++i)
      quarter.data<float>()[i] = weight.data<float>()[i] / 4;  // powers of two change no other bit
    weight = quarter;
    parts.tensors[std::string(name) + ".scale"] = four;
  }
  parts.write(dir / "scaled.gguf");
  EXPECT_EQ(bits("scaled.gguf"), bits("made.gguf"));
  // A matrix that becomes no layer of its own.
  parts.tensors["blk.0.ssm_conv1d.scale"] = four;
  parts.write(dir / "wrong.gguf");
  EXPECT_THAT(error("wrong.gguf"), HasSubstr("blk.0.ssm_conv1d.scale: products"));
}

// The writer has no such type: blocks go into the file as Q4_0's, of which two have as many values and bytes,
// and then it is told that they are others.
void call_nvfp4(const std::filesystem::path& path, std::span<const std::string> names) {
  std::string bytes = testing::read_text(path);
  for (const std::string& name : names) {
    const size_t at = bytes.find(name) + name.size();
    ASSERT_LT(at, bytes.size());
    ASSERT_EQ(bytes[at], 2) << "sizes";
    char& type = bytes[at + 4 + 2 * 8];
    ASSERT_EQ(type, 2) << "Q4_0";
    type = 40;
  }
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST_F(OddFiles, FloatsOfFourBitsAreTheFloatsTheyAre) {
  make("qwen35");
  Parts small(dir / "made.gguf"), wide = small;
  const std::vector<std::string> names = {"blk.0.ffn_up.weight", "blk.3.attn_q.weight",
                                          "blk.4.attn_qkv.weight"};
  for (const std::string& name : names) {
    const Shape shape = small.tensors.at(name).shape();
    Tensor blocks = Tensor::zeros(DType::kQ4_0, shape), values = Tensor::zeros(DType::kF16, shape);
    auto* block = reinterpret_cast<kernels::BlockNVFP4*>(blocks.raw());
    const size_t count = static_cast<size_t>(shape.count());
    for (size_t i = 0; i < count / kernels::kNvfp4Values; ++i, ++block) {
      for (size_t g = 0; g < 4; ++g) block->d[g] = static_cast<uint8_t>(random_u64(1, i, g) % 24);
      for (size_t b = 0; b < 32; ++b) block->qs[b] = static_cast<uint8_t>(random_u64(2, i, b));
    }
    kernels::nvfp4_to_f16(blocks.raw(), values.data<uint16_t>(), count);
    small.tensors.at(name) = blocks;
    wide.tensors.at(name) = values;
    Tensor scale = Tensor::zeros(DType::kF32, {1}), of_input = scale;
    scale.data<float>()[0] = 0.37f;
    const std::string stem = name.substr(0, name.rfind('.'));
    small.tensors[stem + ".scale"] = wide.tensors[stem + ".scale"] = scale;
    small.tensors[stem + ".input_scale"] = of_input;
  }
  small.write(dir / "small.gguf");
  wide.write(dir / "wide.gguf");
  call_nvfp4(dir / "small.gguf", names);
  const model::ModelFile file = model::open_model(dir / "small.gguf");
  EXPECT_EQ(file.find(names[0])->type_name(), "NVFP4");
  EXPECT_EQ(file.tensor(names[0]).dtype(), DType::kF16);
  EXPECT_EQ(bits("small.gguf"), bits("wide.gguf"));
  EXPECT_NE(bits("small.gguf"), bits("made.gguf"));
}

TEST_F(OddFiles, SizesOfLinearAttentionThatDoNotFitAreRefusedInWords) {
  make("qwen35");
  const Parts made(dir / "made.gguf");
  const std::pair<const char*, uint32_t> wrong[] = {{"qwen35.ssm.inner_size", 7},
                                                    {"qwen35.ssm.state_size", 24},
                                                    {"qwen35.ssm.group_count", 3},
                                                    {"qwen35.ssm.conv_kernel", 9},
                                                    {"qwen35.ssm.conv_kernel", 1}};
  for (const auto& [key, value] : wrong) {
    Parts parts = made;
    parts.metadata.set(key, value);
    parts.write(dir / "wrong.gguf");
    EXPECT_THAT(error("wrong.gguf"), HasSubstr(std::string("key ") + key + ": expected")) << value;
  }
}

// Frozen layers pass gradients on, and do not learn themselves.
TEST_F(OddFiles, LayersThatCannotLearnAreRefusedInWords) {
  const std::pair<const char*, const char*> refused[] = {{"qwen35", "recurrent layers"},
                                                         {"lfm2", "recurrent layers"},
                                                         {"nemotron_h", "recurrent layers"},
                                                         {"gpt-oss", "sinks of attention"},
                                                         {"deepseek2", "heads of attention over latents"},
                                                         {"gemma4", "inputs that layers have of their own"},
                                                         {"qwen3moe", "experts"}};
  for (const auto& [architecture, what] : refused) {
    make(architecture);
    try {
      const train::Transformer learns(model::open_model(dir / "made.gguf"), {.length = 8});
      ADD_FAILURE() << architecture << ": no error";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr(std::string(what) + " do not learn themselves; adapter: lora"));
    }
  }
}

}  // namespace
}  // namespace butterfly::runtime
