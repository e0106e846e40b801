#include "model/formats/file_type.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/testing/source_tree.h"

namespace butterfly::model {
namespace {

// A model of these sizes without values.
struct Facts {
  std::string architecture = "llama";
  uint32_t layers = 32, heads = 32, kv_heads = 32, experts = 0;
  int64_t dim = 4096, ff = 11008;
  bool tied = false;
};

ModelFile model_of(const Facts& f) {
  Metadata metadata("facts");
  metadata.set("general.architecture", f.architecture);
  metadata.set(f.architecture + ".block_count", f.layers);
  metadata.set(f.architecture + ".attention.head_count", f.heads);
  metadata.set(f.architecture + ".attention.head_count_kv", f.kv_heads);
  if (f.experts) metadata.set(f.architecture + ".expert_count", f.experts);
  std::vector<NamedTensor> tensors;
  const auto add = [&](std::string name, Shape shape, DType dtype = DType::kF32) {
    tensors.emplace_back(std::move(name), dtype, shape, std::function<Tensor()>());
  };
  add("token_embd.weight", {32000, f.dim});
  for (uint32_t l = 0; l < f.layers; ++l) {
    const std::string block = "blk." + std::to_string(l) + ".";
    add(block + "attn_norm.weight", {f.dim}, DType::kF16);
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"})
      add(block + name + ".weight", {f.dim, f.dim});
    add(block + "ffn_up.weight", {f.ff, f.dim});
    add(block + "ffn_down.weight", {f.dim, f.ff});
    if (f.experts) add(block + "ffn_gate_inp.weight", {f.experts, f.dim});
  }
  if (!f.tied) add("output.weight", {32000, f.dim});
  return ModelFile("test", "facts", std::move(metadata), std::move(tensors), {});
}

std::map<std::string, DType> plan(const Facts& facts, const char* type, bool pure = false) {
  const ModelFile file = model_of(facts);
  const auto types = plan_types(file, *file_type_by_name(type), pure);
  std::map<std::string, DType> by_name;
  for (size_t i = 0; i < types.size(); ++i) by_name[file.tensors()[i].name] = types[i];
  return by_name;
}

// The layers whose tensor of this name has `type`.
std::set<uint32_t> layers_with(const std::map<std::string, DType>& types, const char* name, DType type,
                               uint32_t layers = 32) {
  std::set<uint32_t> found;
  for (uint32_t l = 0; l < layers; ++l)
    if (types.at("blk." + std::to_string(l) + "." + name + ".weight") == type) found.insert(l);
  return found;
}

// The first and last eighth of 32 layers, and every third between.
const std::set<uint32_t> kMoreBits = {0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31};

TEST(FileTypes, NamesAndNumbers) {
  EXPECT_EQ(file_type_by_name("q4_k_m")->number, 15u);
  EXPECT_EQ(file_type_by_name("Q4_K"), file_type_by_name("Q4_K_M"));
  EXPECT_EQ(file_type_by_name("Q9"), nullptr);
  EXPECT_EQ(file_type_number(DType::kF32), 0u);
  EXPECT_EQ(file_type_number(DType::kBF16), 32u);
  EXPECT_EQ(file_type_number(DType::kQ3_K), 12u);  // the middle mix
  EXPECT_EQ(file_type_number(DType::kI32), 1024u);
  std::set<uint32_t> numbers;
  for (const FileType& type : file_types()) EXPECT_TRUE(numbers.insert(type.number).second) << type.name;
}

TEST(FileTypes, Q4KMGivesMoreBitsToHalfTheLayers) {
  for (const char* mix : {"Q4_K_M", "Q5_K_M"}) {
    const auto types = plan({}, mix);
    const DType base = file_type_by_name(mix)->base;
    EXPECT_EQ(layers_with(types, "attn_v", DType::kQ6_K), kMoreBits) << mix;
    EXPECT_EQ(layers_with(types, "ffn_down", DType::kQ6_K), kMoreBits) << mix;
    EXPECT_EQ(layers_with(types, "attn_v", base).size(), 32 - kMoreBits.size());
    EXPECT_EQ(layers_with(types, "attn_q", base).size(), 32u);
    EXPECT_EQ(layers_with(types, "ffn_up", base).size(), 32u);
    EXPECT_EQ(types.at("output.weight"), DType::kQ6_K);
    EXPECT_EQ(types.at("token_embd.weight"), base);
    EXPECT_EQ(types.at("blk.0.attn_norm.weight"), DType::kF32);
  }
}

TEST(FileTypes, TheOtherMixes) {
  const auto q4_k_s = plan({}, "Q4_K_S");
  EXPECT_EQ(layers_with(q4_k_s, "attn_v", DType::kQ5_K), (std::set<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(layers_with(q4_k_s, "ffn_down", DType::kQ5_K), (std::set<uint32_t>{0, 1, 2, 3}));
  const auto q3_k_m = plan({}, "Q3_K_M");
  EXPECT_EQ(layers_with(q3_k_m, "attn_v", DType::kQ5_K), (std::set<uint32_t>{0, 1}));
  EXPECT_EQ(layers_with(q3_k_m, "attn_v", DType::kQ4_K).size(), 30u);
  EXPECT_EQ(layers_with(q3_k_m, "ffn_down", DType::kQ5_K), (std::set<uint32_t>{0, 1}));
  EXPECT_EQ(layers_with(q3_k_m, "attn_output", DType::kQ4_K).size(), 32u);
  EXPECT_EQ(layers_with(plan({}, "Q3_K_L"), "ffn_down", DType::kQ5_K).size(), 32u);
  EXPECT_EQ(layers_with(plan({}, "Q3_K_S"), "ffn_down", DType::kQ3_K).size(), 32u);
  EXPECT_EQ(layers_with(plan({}, "Q2_K"), "attn_v", DType::kQ3_K).size(), 32u);
  EXPECT_EQ(layers_with(plan({.kv_heads = 8}, "Q2_K"), "attn_v", DType::kQ4_K).size(), 32u);
  EXPECT_EQ(layers_with(plan({}, "Q2_K_S"), "ffn_down", DType::kQ4_K), (std::set<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(layers_with(plan({}, "Q5_K_S"), "attn_v", DType::kQ5_K).size(), 32u);
  const auto q70 = plan({.layers = 80, .heads = 64, .kv_heads = 8}, "Q4_K_S");
  EXPECT_EQ(layers_with(q70, "attn_v", DType::kQ5_K, 80).size(), 80u);
}

TEST(FileTypes, EightExperts) {
  const auto types = plan({.experts = 8}, "Q4_K_M");
  EXPECT_EQ(layers_with(types, "attn_v", DType::kQ8_0).size(), 32u);
  EXPECT_EQ(layers_with(types, "attn_k", DType::kQ8_0).size(), 32u);
  EXPECT_EQ(layers_with(types, "attn_output", DType::kQ5_K).size(), 32u);
  EXPECT_EQ(layers_with(types, "ffn_gate_inp", DType::kF32).size(), 32u);
}

TEST(FileTypes, OutputAndTiedEmbedding) {
  EXPECT_EQ(plan({.tied = true}, "Q4_K_M").at("token_embd.weight"), DType::kQ6_K);
  EXPECT_EQ(plan({}, "Q4_0").at("output.weight"), DType::kQ6_K);
  EXPECT_EQ(plan({}, "Q8_0").at("output.weight"), DType::kQ8_0);
  EXPECT_EQ(plan({}, "F16").at("output.weight"), DType::kF16);
  EXPECT_EQ(plan({}, "Q4_0", /*pure=*/true).at("output.weight"), DType::kQ4_0);
}

TEST(FileTypes, RowsThatBlocksDoNotDivide) {
  const Facts narrow{.layers = 1, .dim = 96, .ff = 48};
  EXPECT_EQ(plan(narrow, "Q4_K_S").at("blk.0.attn_q.weight"), DType::kQ5_0);
  EXPECT_EQ(plan(narrow, "Q5_K_S").at("blk.0.attn_q.weight"), DType::kQ5_1);
  EXPECT_EQ(plan(narrow, "Q6_K").at("blk.0.attn_q.weight"), DType::kQ8_0);
  EXPECT_EQ(plan(narrow, "Q3_K_S").at("blk.0.attn_q.weight"), DType::kQ4_0);
  EXPECT_EQ(plan(narrow, "Q2_K_S").at("blk.0.attn_q.weight"), DType::kQ4_0);
  EXPECT_EQ(plan(narrow, "Q4_K_M").at("output.weight"), DType::kQ8_0);
  EXPECT_EQ(plan(narrow, "Q4_K_M").at("blk.0.ffn_down.weight"), DType::kF16);
  EXPECT_EQ(plan(narrow, "Q8_0").at("blk.0.ffn_down.weight"), DType::kF16);
}

// A file that ggml quantised has the types that are planned for it.
TEST(FileTypes, AgreeWithAFileOfLlamaCpp) {
  const std::filesystem::path path =
      source_path() / "../shared/data/models/tiny-quantized-llamacpp/llama-256-q4_0.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
  const ModelFile file = open_model(path);
  const auto types = plan_types(file, *file_type_by_name("Q4_0"));
  ASSERT_EQ(types.size(), file.tensors().size());
  for (size_t i = 0; i < types.size(); ++i)
    EXPECT_EQ(types[i], file.tensors()[i].dtype) << file.tensors()[i].name;
}

}  // namespace
}  // namespace butterfly::model
