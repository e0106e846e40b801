#include "model/formats/hf_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/json_text.h"
#include "kernels/quant/quant.h"
#include "model/formats/hf_architecture.h"
#include "model/testing/hf_test_folder.h"

namespace butterfly::model {
namespace {

using ::testing::HasSubstr;
using testing::HfTestTensor;
using testing::safetensors_bytes;
using testing::tiny_config;
namespace fs = std::filesystem;
using butterfly::testing::TempDir;

template <typename Fn>
std::string error_of(Fn&& fn) {
  try {
    fn();
    return "no Error";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string open_error(const fs::path& path) {
  return error_of([&] { open_model(path); });
}

// A tiny Llama's tensors.
std::vector<HfTestTensor> llama_tensors() {
  return {{"model.embed_tokens.weight", {5, 8}},
          {"model.layers.0.self_attn.q_proj.weight", {8, 8}},
          {"model.layers.0.self_attn.k_proj.weight", {4, 8}},
          {"model.layers.0.self_attn.v_proj.weight", {4, 8}},
          {"model.layers.0.self_attn.o_proj.weight", {8, 8}},
          {"model.layers.0.self_attn.rotary_emb.inv_freq", {2}},
          {"model.layers.0.input_layernorm.weight", {8}},
          {"model.layers.0.post_attention_layernorm.weight", {8}},
          {"model.layers.0.mlp.gate_proj.weight", {12, 8}},
          {"model.layers.0.mlp.up_proj.weight", {12, 8}},
          {"model.layers.0.mlp.down_proj.weight", {8, 12}},
          {"model.norm.weight", {8}},
          {"lm_head.weight", {5, 8}}};
}

void write_model(const TempDir& dir, const nlohmann::json& config, const std::vector<HfTestTensor>& tensors,
                 const std::string& type = "F32") {
  dir.write("config.json", json_text(config));
  dir.write("model.safetensors", safetensors_bytes(tensors, type));
}

float at(const Tensor& tensor, size_t index) { return tensor.data<float>()[index]; }
// Value i of the t-th tensor of a file of safetensors_bytes().
float stored(size_t t, size_t i) { return static_cast<float>(t) + static_cast<float>(i) / 1024; }

TEST(HfFolder, LlamaGetsGgufsNamesKeysAndRowOrder) {
  TempDir dir;
  write_model(dir, tiny_config("LlamaForCausalLM"), llama_tensors());
  const ModelFile file = open_model(dir.path());
  EXPECT_EQ(file.format(), "safetensors (LlamaForCausalLM)");
  EXPECT_EQ(file.architecture(), "llama");
  const Metadata& metadata = file.metadata();
  EXPECT_EQ(metadata.u32("llama.block_count"), 1u);
  EXPECT_EQ(metadata.u32("llama.attention.head_count_kv"), 1u);
  EXPECT_EQ(metadata.f32("llama.rope.freq_base"), 50000.0f);
  EXPECT_EQ(metadata.f32("llama.attention.layer_norm_rms_epsilon"), 1e-6f);
  EXPECT_EQ(metadata.u32("general.file_type"), 0u);
  EXPECT_EQ(file.tensors().size(), 12u);  // not inv_freq
  EXPECT_EQ(file.tensors().front().name, "token_embd.weight");
  EXPECT_EQ(file.tensors().back().name, "output.weight");
  const Tensor v = file.tensor("blk.0.attn_v.weight", {4, 8});
  EXPECT_EQ(at(v, 9), stored(3, 9));
  // Rows 0 1 2 3 of a head become 0 2 1 3: (first half, second half) to pairs.
  const Tensor q = file.tensor("blk.0.attn_q.weight", {8, 8});
  const size_t rows[] = {0, 2, 1, 3, 4, 6, 5, 7};
  for (size_t row = 0; row < 8; ++row)
    for (size_t col = 0; col < 8; ++col) EXPECT_EQ(at(q, row * 8 + col), stored(1, rows[row] * 8 + col));
  EXPECT_EQ(at(file.tensor("blk.0.attn_k.weight"), 8), stored(2, 16));
  // Any of its files stands for the folder.
  EXPECT_EQ(open_model(dir / "config.json").tensors().size(), 12u);
  EXPECT_EQ(open_model(dir / "model.safetensors").tensors().size(), 12u);
}

TEST(HfFolder, OneMatrixForBothEnds) {
  TempDir dir;
  nlohmann::json config = tiny_config("LlamaForCausalLM");
  config["tie_word_embeddings"] = true;
  auto tensors = llama_tensors();
  write_model(dir, config, tensors);
  EXPECT_FALSE(open_model(dir.path()).has("output.weight"));
  EXPECT_EQ(at(open_model(dir.path()).tensor("token_embd.weight"), 1), stored(0, 1));
  tensors.erase(tensors.begin());  // only lm_head is left
  write_model(dir, config, tensors);
  const ModelFile file = open_model(dir.path());
  EXPECT_FALSE(file.has("output.weight"));
  EXPECT_EQ(at(file.tensor("token_embd.weight", {5, 8}), 1), stored(11, 1));
}

TEST(HfFolder, Gpt2MatricesAreTransposed) {
  TempDir dir;
  write_model(dir, tiny_config("GPT2LMHeadModel"),
              {{"transformer.wte.weight", {5, 8}},
               {"h.0.attn.c_attn.weight", {8, 24}},
               {"h.0.attn.bias", {1, 1, 4, 4}}});
  const ModelFile file = open_model(dir.path());
  EXPECT_EQ(file.architecture(), "gpt2");
  EXPECT_EQ(file.metadata().u32("gpt2.feed_forward_length"), 12u);
  EXPECT_EQ(file.tensors().size(), 2u);
  const Tensor qkv = file.tensor("blk.0.attn_qkv.weight", {24, 8});
  for (size_t out = 0; out < 24; ++out)
    for (size_t in = 0; in < 8; ++in) EXPECT_EQ(at(qkv, out * 8 + in), stored(1, in * 24 + out));
}

TEST(HfFolder, GemmaNormsGetTheirOne) {
  TempDir dir;
  nlohmann::json config = tiny_config("Gemma2ForCausalLM");
  config.update(
      {{"attn_logit_softcapping", 50.0}, {"final_logit_softcapping", 30.0}, {"sliding_window", 16}});
  write_model(dir, config,
              {{"model.norm.weight", {8}},
               {"model.layers.0.pre_feedforward_layernorm.weight", {8}},
               {"model.layers.0.self_attn.q_proj.weight", {8, 8}}},
              "BF16");
  const ModelFile file = open_model(dir.path());
  EXPECT_EQ(file.metadata().f32("gemma2.attn_logit_softcapping"), 50.0f);
  EXPECT_EQ(file.metadata().u32("gemma2.attention.sliding_window"), 16u);
  EXPECT_EQ(file.metadata().u32("gemma2.attention.key_length"), 4u);
  const Tensor norm = file.tensor("output_norm.weight", {8});
  ASSERT_EQ(norm.dtype(), DType::kF32);
  EXPECT_EQ(at(norm, 2), 1 + 2.0f / 1024);
  EXPECT_EQ(at(file.tensor("blk.0.ffn_norm.weight"), 0), 2.0f);
  EXPECT_EQ(file.tensor("blk.0.attn_q.weight").dtype(), DType::kBF16);
  EXPECT_EQ(file.metadata().u32("general.file_type"), 32u);
}

TEST(HfFolder, Gemma3TextPartOfAMultimodalModel) {
  TempDir dir;
  nlohmann::json config = {
      {"architectures", {"Gemma3ForConditionalGeneration"}},
      {"text_config", {{"hidden_size", 16}, {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}}}}};
  write_model(dir, config,
              {{"language_model.model.embed_tokens.weight", {5, 16}},
               {"vision_tower.x.weight", {3}},
               {"multi_modal_projector.y", {3}},
               {"language_model.model.layers.0.self_attn.k_norm.weight", {4}}});
  const ModelFile file = open_model(dir.path());
  EXPECT_EQ(file.architecture(), "gemma3");
  EXPECT_EQ(file.metadata().u32("gemma3.embedding_length"), 16u);
  EXPECT_EQ(file.metadata().u32("gemma3.attention.head_count"), 8u);
  EXPECT_EQ(file.metadata().string("gemma3.rope.scaling.type"), "linear");
  EXPECT_EQ(file.metadata().f32("gemma3.rope.scaling.factor"), 8.0f);
  EXPECT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(at(file.tensor("blk.0.attn_k_norm.weight"), 0), 4.0f);
}

TEST(HfFolder, ExpertsAreStacked) {
  TempDir dir;
  nlohmann::json config = tiny_config("Qwen3MoeForCausalLM");
  config.update({{"num_experts", 3}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 6}});
  const auto expert = [](int n) {
    return "model.layers.0.mlp.experts." + std::to_string(n) + ".up_proj.weight";
  };
  std::vector<HfTestTensor> tensors = {{expert(2), {6, 8}},
                                       {expert(0), {6, 8}},
                                       {expert(1), {6, 8}},
                                       {"model.layers.0.mlp.gate.weight", {3, 8}}};
  write_model(dir, config, tensors);
  const ModelFile file = open_model(dir.path());
  EXPECT_EQ(file.architecture(), "qwen3moe");
  EXPECT_EQ(file.metadata().u32("qwen3moe.expert_used_count"), 2u);
  EXPECT_EQ(file.metadata().u32("qwen3moe.expert_feed_forward_length"), 6u);
  const Tensor stack = file.tensor("blk.0.ffn_up_exps.weight", {3, 6, 8});
  for (const auto& [number, source] : {std::pair<size_t, size_t>(0, 1), {1, 2}, {2, 0}})
    EXPECT_EQ(at(stack, number * 48 + 5), stored(source, 5)) << number;
  EXPECT_TRUE(file.has("blk.0.ffn_gate_inp.weight"));

  tensors[2].name = expert(7);
  write_model(dir, config, tensors);
  EXPECT_THAT(open_error(dir.path()),
              HasSubstr("blk.0.ffn_up_exps.weight: expected experts 0 to 2, found 3"));
  tensors[2] = {expert(1), {6, 9}};
  write_model(dir, config, tensors);
  EXPECT_THAT(open_error(dir.path()), HasSubstr("expected [6, 8] of F32 as expert 0, found shape [6, 9]"));
}

// Nibbles and scales in two tensors, gates and outputs by turns.
TEST(HfFolder, GptOssExpertsAreMxfp4) {
  TempDir dir;
  nlohmann::json config = tiny_config("GptOssForCausalLM");
  config.update({{"num_local_experts", 2}, {"num_experts_per_tok", 1}, {"sliding_window", 8}});
  const std::string place = "model.layers.0.mlp.experts.gate_up_proj_";
  const std::vector<HfTestTensor> tensors = {{place + "blocks", {2, 4, 3, 16}},
                                             {place + "scales", {2, 4, 3}}};
  write_model(dir, config, tensors, "U8");
  const ModelFile file = open_model(dir.path());
  EXPECT_EQ(file.metadata().u32("gpt-oss.attention.sliding_window"), 8u);
  for (const size_t turn : {0, 1}) {
    const Tensor tensor =
        file.tensor(turn == 0 ? "blk.0.ffn_gate_exps.weight" : "blk.0.ffn_up_exps.weight", {2, 2, 96});
    ASSERT_EQ(tensor.dtype(), DType::kMXFP4);
    std::vector<float> values(2 * 2 * 96);
    kernels::to_float(DType::kMXFP4, tensor.raw(), values.data(), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t row = i / 96, column = i % 96;                                 // of both experts
      const size_t block = (row / 2 * 4 + row % 2 * 2 + turn) * 3 + column / 32;  // in the file
      const auto both = static_cast<uint8_t>(7 * (block * 16 + column % 32 / 2));
      const uint8_t code = column % 2 == 0 ? both & 15 : both >> 4;
      const auto exponent = static_cast<uint8_t>(31 + 7 * block);
      constexpr float kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
      const float want = std::ldexp(code < 8 ? kValues[code] : -kValues[code - 8], exponent - 127);
      ASSERT_EQ(values[i], want) << i;
    }
  }
  write_model(dir, config, {tensors[0]}, "U8");
  EXPECT_THAT(open_error(dir.path()), HasSubstr("gate_up_proj_blocks: its scales are missing"));
  write_model(dir, config, {tensors[0], {place + "scales", {2, 4, 2}}}, "U8");
  EXPECT_THAT(open_error(dir.path()), HasSubstr("gate_up_proj_scales: expected U8 of shape [2, 4, 3]"));
  write_model(dir, config, {{place + "blocks", {2, 3, 3, 16}}, {place + "scales", {2, 3, 3}}}, "U8");
  EXPECT_THAT(open_error(dir.path()), HasSubstr("expected U8 of shape [experts, rows, blocks, 16]"));
}

TEST(HfFolder, MixtralIsALlamaWithExperts) {
  TempDir dir;
  nlohmann::json config = tiny_config("MixtralForCausalLM");
  config.update({{"num_local_experts", 1}, {"num_experts_per_tok", 1}});
  write_model(dir, config, {{"model.layers.0.block_sparse_moe.experts.0.w2.weight", {8, 12}}});
  const ModelFile file = open_model(dir.path());
  EXPECT_EQ(file.metadata().u32("llama.expert_count"), 1u);
  EXPECT_EQ(file.find("blk.0.ffn_down_exps.weight")->shape, (Shape{1, 8, 12}));
}

TEST(HfFolder, RopeScalings) {
  TempDir dir;
  nlohmann::json config = tiny_config("LlamaForCausalLM");
  const auto with = [&](nlohmann::json scaling) {
    config["rope_scaling"] = std::move(scaling);
    write_model(dir, config, llama_tensors());
    return open_model(dir.path());
  };
  const ModelFile yarn = with({{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 8}});
  EXPECT_EQ(yarn.metadata().string("llama.rope.scaling.type"), "yarn");
  EXPECT_EQ(yarn.metadata().u32("llama.rope.scaling.original_context_length"), 8u);
  EXPECT_FALSE(with({{"rope_type", "default"}}).metadata().has("llama.rope.scaling.type"));
  const ModelFile llama3 = with({{"rope_type", "llama3"},
                                 {"factor", 8.0},
                                 {"low_freq_factor", 1.0},
                                 {"high_freq_factor", 4.0},
                                 {"original_max_position_embeddings", 8192}});
  const Tensor factors = llama3.tensor("rope_freqs.weight", {2});
  EXPECT_EQ(at(factors, 0), 1.0f);
  // Wavelength 2 pi sqrt(50000) = 1405 < 8192 / 4: not stretched either; with a short context it is.
  EXPECT_EQ(at(factors, 1), 1.0f);
  EXPECT_EQ(at(with({{"rope_type", "llama3"}, {"original_max_position_embeddings", 1000}})
                   .tensor("rope_freqs.weight"),
               1),
            8.0f);
  // Up to the model's context "dynamic" changes nothing.
  EXPECT_FALSE(with({{"type", "dynamic"}, {"factor", 2.0}}).metadata().has("llama.rope.scaling.factor"));
  const ModelFile tuned =
      with({{"type", "yarn"}, {"factor", 4.0}, {"beta_fast", 16.0}, {"attention_factor", 2}});
  EXPECT_EQ(tuned.metadata().f32("llama.rope.scaling.yarn_beta_fast"), 16.0f);
  EXPECT_NEAR(tuned.metadata().f32("llama.rope.scaling.attn_factor"), 2 / (0.1 * std::log(4) + 1), 1e-6);
  config["rope_scaling"] = {{"type", "spiral"}, {"factor", 2.0}};
  write_model(dir, config, llama_tensors());
  EXPECT_THAT(open_error(dir.path()), HasSubstr("type 'spiral' is not supported"));
  config.erase("rope_scaling");
  config.erase("rope_theta");
  config["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 123.0}};
  write_model(dir, config, llama_tensors());
  EXPECT_EQ(open_model(dir.path()).metadata().f32("llama.rope.freq_base"), 123.0f);
}

TEST(HfFolder, Windows) {
  TempDir dir;
  nlohmann::json config = tiny_config("MistralForCausalLM");
  const auto metadata = [&] {
    write_model(dir, config, llama_tensors());
    return open_model(dir.path()).metadata();
  };
  config["sliding_window"] = 12;
  EXPECT_EQ(metadata().u32("llama.attention.sliding_window"), 12u);
  config["sliding_window"] = nullptr;
  EXPECT_FALSE(metadata().has("llama.attention.sliding_window"));
  config = tiny_config("Qwen2ForCausalLM");
  config.update({{"sliding_window", 12}, {"use_sliding_window", false}});
  EXPECT_FALSE(metadata().has("qwen2.attention.sliding_window"));
  config["use_sliding_window"] = true;
  write_model(dir, config, llama_tensors());
  EXPECT_THAT(open_error(dir.path()), HasSubstr("key use_sliding_window: windows in some of the layers"));
}

TEST(HfFolder, Gemma3RopeAndWindowsInTheNewerForm) {
  TempDir dir;
  nlohmann::json config = tiny_config("Gemma3ForCausalLM");
  config.erase("rope_theta");
  config["rope_parameters"] = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 777.0}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 55.0}}}};
  config["layer_types"] = {"full_attention"};
  config["query_pre_attn_scalar"] = 4;
  write_model(dir, config, {{"model.embed_tokens.weight", {5, 8}}});
  const Metadata metadata = open_model(dir.path()).metadata();
  EXPECT_EQ(metadata.f32("gemma3.rope.freq_base"), 777.0f);
  EXPECT_EQ(metadata.f32("gemma3.rope.freq_base_swa"), 55.0f);
  EXPECT_EQ(metadata.f32("gemma3.rope.scaling.factor"), 8.0f);
  EXPECT_TRUE(metadata.has("gemma3.attention.sliding_window_pattern"));
  config["query_pre_attn_scalar"] = 5;
  write_model(dir, config, {{"model.embed_tokens.weight", {5, 8}}});
  EXPECT_THAT(open_error(dir.path()), HasSubstr("query_pre_attn_scalar: expected 4"));
}

TEST(HfFolder, Phi3LongFactors) {
  TempDir dir;
  nlohmann::json config = tiny_config("Phi3ForCausalLM");
  config.update(
      {{"original_max_position_embeddings", 16},
       {"sliding_window", 7},
       {"rope_scaling", {{"type", "longrope"}, {"long_factor", {1.5, 2.5}}, {"short_factor", {1, 2}}}}});
  write_model(dir, config,
              {{"model.layers.0.self_attn.qkv_proj.weight", {16, 8}},
               {"model.layers.0.mlp.gate_up_proj.weight", {24, 8}}});
  const ModelFile file = open_model(dir.path());
  EXPECT_EQ(at(file.tensor("rope_factors_long.weight", {2}), 1), 2.5f);
  EXPECT_EQ(at(file.tensor("rope_factors_short.weight", {2}), 1), 2.0f);
  EXPECT_NEAR(file.metadata().f32("phi3.rope.scaling.attn_factor"), std::sqrt(1 + std::log(2) / std::log(16)),
              1e-6);
  EXPECT_EQ(file.metadata().u32("phi3.attention.sliding_window"), 7u);
  EXPECT_TRUE(file.has("blk.0.attn_qkv.weight"));
  EXPECT_TRUE(file.has("blk.0.ffn_up.weight"));
}

TEST(HfFolder, ShardsByTheirIndex) {
  TempDir dir;
  const auto all = llama_tensors();
  dir.write("config.json", json_text(tiny_config("LlamaForCausalLM")));
  nlohmann::json map;
  for (size_t i = 0; i < all.size(); ++i) map[all[i].name] = i < 6 ? "a.safetensors" : "b.safetensors";
  dir.write("a.safetensors", safetensors_bytes({all.begin(), all.begin() + 6}));
  dir.write("b.safetensors", safetensors_bytes({all.begin() + 6, all.end()}));
  dir.write("model.safetensors.index.json", json_text(nlohmann::json({{"weight_map", map}})));
  const ModelFile file = open_model(dir.path());
  EXPECT_EQ(file.tensors().size(), 12u);
  EXPECT_EQ(file.files().size(), 2u);
  EXPECT_EQ(open_model(dir / "model.safetensors.index.json").tensors().size(), 12u);
  fs::remove(dir / "b.safetensors");
  EXPECT_THAT(open_error(dir.path()), HasSubstr("shard b.safetensors is missing"));
  dir.write("b.safetensors", safetensors_bytes({all.begin() + 7, all.end()}));
  EXPECT_THAT(
      open_error(dir.path()),
      HasSubstr(
          "tensor model.layers.0.input_layernorm.weight: expected in b.safetensors, found in no shard"));
  dir.write("b.safetensors", safetensors_bytes({all.begin() + 5, all.end()}));
  map["model.layers.0.self_attn.rotary_emb.inv_freq"] = "../b.safetensors";
  dir.write("model.safetensors.index.json", json_text(nlohmann::json({{"weight_map", map}})));
  EXPECT_THAT(open_error(dir.path()), HasSubstr("expected a plain file name, found '../b.safetensors'"));
}

TEST(HfFolder, TokenizerTemplateAndSampling) {
  TempDir dir;
  write_model(dir, tiny_config("LlamaForCausalLM"), llama_tensors());
  EXPECT_FALSE(open_model(dir.path()).metadata().has("tokenizer.ggml.model"));
  dir.write(
      "tokenizer.json",
      R"({"model": {"type": "BPE", "byte_fallback": true, "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2, "a": 3},
      "merges": [], "unk_token": "<unk>"}, "added_tokens": [{"id": 1, "content": "<s>", "special": true}, {"id": 2, "content": "</s>", "special": true}],
      "pre_tokenizer": null, "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}, "decoder": null, "post_processor": null})");
  dir.write("tokenizer_config.json",
            R"({"bos_token": "<s>", "eos_token": "</s>", "chat_template": "{{ x }}"})");
  dir.write("generation_config.json", R"({"temperature": 0.5, "top_k": 20})");
  const ModelFile file = open_model(dir.path());
  const Metadata& metadata = file.metadata();
  EXPECT_EQ(metadata.strings("tokenizer.ggml.tokens").size(), 5u);  // padded to the rows of the embedding
  EXPECT_EQ(metadata.u32("tokenizer.ggml.eos_token_id"), 2u);
  EXPECT_EQ(metadata.string("tokenizer.chat_template"), "{{ x }}");
  EXPECT_EQ(metadata.f32("general.sampling.temp"), 0.5f);
  EXPECT_EQ(metadata.u32("general.sampling.top_k"), 20u);
  dir.write(
      "tokenizer_config.json",
      R"({"chat_template": [{"name": "tool", "template": "t"}, {"name": "default", "template": "d"}]})");
  EXPECT_EQ(open_model(dir.path()).metadata().string("tokenizer.chat_template"), "d");
  dir.write("tokenizer.json", "{}");
  EXPECT_NE(open_error(dir.path()), "no Error");
}

TEST(HfFolder, RefusesInWords) {
  TempDir dir;
  EXPECT_THAT(open_error(dir.path()), HasSubstr("has no config.json"));
  dir.write("config.json", R"({"architectures": ["T5ForConditionalGeneration"]})");
  EXPECT_THAT(open_error(dir.path()),
              HasSubstr("'T5ForConditionalGeneration' is not supported; this build reads LlamaForCausalLM"));
  dir.write("config.json", "{");
  EXPECT_THAT(open_error(dir.path()), HasSubstr("config.json: expected JSON, found"));
  dir.write("config.json", std::string(100, '[') + std::string(100, ']'));
  EXPECT_THAT(open_error(dir.path()), HasSubstr("expected at most 64 levels"));
  nlohmann::json config = tiny_config("LlamaForCausalLM");
  config["num_hidden_layers"] = "two";
  dir.write("config.json", json_text(config));
  EXPECT_THAT(open_error(dir.path()), HasSubstr("key num_hidden_layers: expected a whole number"));
  config.erase("num_hidden_layers");
  dir.write("config.json", json_text(config));
  EXPECT_THAT(open_error(dir.path()),
              HasSubstr("key num_hidden_layers: expected a whole number, found no such key"));
  config = tiny_config("LlamaForCausalLM");
  config["hidden_act"] = "relu";
  dir.write("config.json", json_text(config));
  EXPECT_THAT(open_error(dir.path()), HasSubstr("key hidden_act: expected silu, found \"relu\""));
  dir.write("config.json", json_text(tiny_config("LlamaForCausalLM")));
  EXPECT_THAT(open_error(dir.path()),
              HasSubstr("expected model.safetensors or model.safetensors.index.json"));
  dir.write("pytorch_model.bin", "x");
  EXPECT_THAT(open_error(dir.path()), HasSubstr("PyTorch pickles"));
  write_model(dir, tiny_config("LlamaForCausalLM"), {{"model.layers.0.conv.weight", {2}}});
  EXPECT_THAT(open_error(dir.path()),
              HasSubstr("tensor model.layers.0.conv.weight: expected a name of LlamaForCausalLM"));
  write_model(dir, tiny_config("LlamaForCausalLM"), {{"model.norm.weight", {2}}, {"norm.weight", {2}}});
  EXPECT_THAT(open_error(dir.path()),
              HasSubstr("becomes output_norm.weight, which another tensor is already"));
  write_model(dir, tiny_config("LlamaForCausalLM"), {{"model.layers.0.self_attn.q_proj.weight", {6, 8}}});
  EXPECT_THAT(open_error(dir.path()),
              HasSubstr("expected rows that divide into 2 heads of pairs, found shape [6, 8]"));
}

TEST(HfArchitectures, EveryRowHasRulesForItsEnds) {
  for (const HfArchitecture& row : hf_architectures()) {
    std::string targets;
    for (const auto& group : row.rules)
      for (const HfRule& rule : group) targets += std::string(rule.to) + " ";
    for (const char* name : {"token_embd.weight", "output.weight", "blk.#.attn_output.weight"})
      EXPECT_THAT(targets, HasSubstr(name)) << row.class_name;
    EXPECT_TRUE(targets.find("output_norm.weight") != std::string::npos ||
                targets.find("token_embd_norm.weight") != std::string::npos)
        << row.class_name;
    EXPECT_TRUE(targets.find("blk.#.attn_norm.weight") != std::string::npos ||
                targets.find("blk.#.post_attention_norm.weight") != std::string::npos)
        << row.class_name;
    if (row.gguf_name.starts_with("nemotron_h")) continue;  // a layer is one mixer behind one norm
    EXPECT_TRUE(targets.find("blk.#.ffn_norm.weight") != std::string::npos ||
                targets.find("blk.#.post_attention_norm.weight") != std::string::npos)
        << row.class_name;
  }
}

}  // namespace
}  // namespace butterfly::model
