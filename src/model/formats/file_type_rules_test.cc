// Which tensor gets which type: llama-quantize's own choice, tensor by tensor.
//
// The table is what `llama-quantize --dry-run` of llama.cpp (commit b21e4de7) printed for random models of
// these shapes. Kinds of tensors that are not named have the file type's base; one letter stands for all
// layers.
#include <gtest/gtest.h>

#include <map>

#include "model/formats/file_type.h"
#include "model/synthetic/random_model.h"

namespace butterfly::model {
namespace {

struct ModelShape {
  const char* layout;
  uint32_t layers, heads, kv_heads, dim, ff, experts;
  bool tied;
};
struct Choice {
  const char* file_type;
  const char* kinds;  // "attn_v=46": Q4_K in layer 0, Q6_K in layer 1
};
struct Case {
  ModelShape shape;
  std::vector<Choice> choices;
};

const std::map<char, DType> kLetters = {{'h', DType::kF16},  {'a', DType::kQ4_0}, {'b', DType::kQ4_1},
                                        {'c', DType::kQ5_0}, {'d', DType::kQ5_1}, {'8', DType::kQ8_0},
                                        {'2', DType::kQ2_K}, {'3', DType::kQ3_K}, {'4', DType::kQ4_K},
                                        {'5', DType::kQ5_K}, {'6', DType::kQ6_K}};

// clang-format off
const Case kCases[] = {
    {{"llama", 2, 8, 8, 256, 512, 0, false}, {
        {"F16", ""},
        {"BF16", ""},
        {"Q8_0", ""},
        {"Q6_K", ""},
        {"Q5_K_M", "output=6 attn_v=56 ffn_down=56"},
        {"Q5_K_S", "output=6"},
        {"Q5_1", "output=6"},
        {"Q5_0", "output=6"},
        {"Q4_K_M", "output=6 attn_v=46 ffn_down=46"},
        {"Q4_K_S", "output=6 attn_v=5"},
        {"Q4_1", "output=6"},
        {"Q4_0", "output=6"},
        {"Q3_K_L", "output=6 attn_output=5 attn_v=5 ffn_down=5"},
        {"Q3_K_M", "output=6 attn_output=4 attn_v=5 ffn_down=4"},
        {"Q3_K_S", "output=6"},
        {"Q2_K", "output=6 attn_output=3 attn_v=3 ffn_down=3"},
     }},
    {{"llama", 22, 8, 2, 256, 512, 0, false}, {
        {"F16", ""},
        {"BF16", ""},
        {"Q8_0", ""},
        {"Q6_K", ""},
        {"Q5_K_M", "output=6 attn_v=6655655655655655655666 ffn_down=6655655655655655655666"},
        {"Q5_K_S", "output=6"},
        {"Q5_1", "output=6"},
        {"Q5_0", "output=6"},
        {"Q4_K_M", "output=6 attn_v=6644644644644644644666 ffn_down=6644644644644644644666"},
        {"Q4_K_S", "output=6 attn_v=5555444444444444444444 ffn_down=5544444444444444444444"},
        {"Q4_1", "output=6"},
        {"Q4_0", "output=6"},
        {"Q3_K_L", "output=6 attn_output=5 attn_v=5 ffn_down=5"},
        {"Q3_K_M", "output=6 attn_output=4 attn_v=5544444444444444444444 ffn_down=5444444444444444444444"},
        {"Q3_K_S", "output=6"},
        {"Q2_K", "output=6 attn_output=3 attn_v=4 ffn_down=3"},
     }},
    {{"llama", 28, 8, 4, 256, 512, 0, true}, {
        {"Q5_K_M", "token_embd=6 attn_v=6665565565565565565565566666 ffn_down=6665565565565565565565566666"},
        {"Q4_K_M", "token_embd=6 attn_v=6664464464464464464464466666 ffn_down=6664464464464464464464466666"},
        {"Q4_K_S", "token_embd=6 attn_v=5555444444444444444444444444 ffn_down=5554444444444444444444444444"},
        {"Q3_K_L", "token_embd=6 attn_output=5 attn_v=5 ffn_down=5"},
        {"Q3_K_M", "token_embd=6 attn_output=4 attn_v=5544444444444444444444444444 ffn_down=5444444444444444444444444444"},
        {"Q2_K", "token_embd=6 attn_output=3 attn_v=3 ffn_down=3"},
     }},
    {{"llama", 32, 8, 8, 256, 512, 0, false}, {
        {"Q5_K_M", "output=6 attn_v=66665565565565565565565565566666 ffn_down=66665565565565565565565565566666"},
        {"Q4_K_M", "output=6 attn_v=66664464464464464464464464466666 ffn_down=66664464464464464464464464466666"},
        {"Q4_K_S", "output=6 attn_v=55554444444444444444444444444444 ffn_down=55554444444444444444444444444444"},
        {"Q3_K_L", "output=6 attn_output=5 attn_v=5 ffn_down=5"},
        {"Q3_K_M", "output=6 attn_output=4 attn_v=55444444444444444444444444444444 ffn_down=55444444444444444444444444444444"},
        {"Q2_K", "output=6 attn_output=3 attn_v=3 ffn_down=3"},
        {"Q5_K_S", "output=6"},
        {"Q3_K_S", "output=6"},
        {"Q6_K", ""},
     }},
    {{"llama", 80, 8, 1, 256, 512, 0, false}, {
        {"Q5_K_M", "output=6 attn_v=66666666665565565565565565565565565565565565565565565565565565565565566666666666 ffn_down=66666666665565565565565565565565565565565565565565565565565565565565566666666666"},
        {"Q4_K_M", "output=6 attn_v=66666666665565565565565565565565565565565565565565565565565565565565566666666666 ffn_down=66666666664464464464464464464464464464464464464464464464464464464464466666666666"},
        {"Q4_K_S", "output=6 attn_v=5 ffn_down=55555555554444444444444444444444444444444444444444444444444444444444444444444444"},
        {"Q3_K_L", "output=6 attn_output=5 attn_v=5 ffn_down=5"},
        {"Q3_K_M", "output=6 attn_output=4 attn_v=5 ffn_down=55555444444444444444444444444444444444444444444444444444444444444444444444444444"},
        {"Q2_K", "output=6 attn_output=3 attn_v=5 ffn_down=3"},
     }},
    {{"llama", 80, 8, 8, 256, 512, 0, false}, {
        {"Q4_K_S", "output=6 attn_v=55554444444444444444444444444444444444444444444444444444444444444444444444444444 ffn_down=55555555554444444444444444444444444444444444444444444444444444444444444444444444"},
        {"Q3_K_M", "output=6 attn_output=4 attn_v=55444444444444444444444444444444444444444444444444444444444444444444444444444444 ffn_down=55555444444444444444444444444444444444444444444444444444444444444444444444444444"},
     }},
    {{"mixtral", 32, 8, 2, 256, 512, 8, false}, {
        {"F16", ""},
        {"BF16", ""},
        {"Q8_0", ""},
        {"Q6_K", "attn_k=8 attn_v=8"},
        {"Q5_K_M", "output=6 attn_k=8 attn_v=8 ffn_down_exps=66665565565565565565565565566666"},
        {"Q5_K_S", "output=6 attn_k=8 attn_v=8"},
        {"Q5_1", "output=6 attn_k=8 attn_v=8"},
        {"Q5_0", "output=6 attn_k=8 attn_v=8"},
        {"Q4_K_M", "output=6 attn_k=8 attn_output=5 attn_v=8 ffn_down_exps=66664464464464464464464464466666"},
        {"Q4_K_S", "output=6 attn_k=8 attn_output=5 attn_v=8 ffn_down_exps=55554444444444444444444444444444"},
        {"Q4_1", "output=6 attn_k=8 attn_v=8"},
        {"Q4_0", "output=6 attn_k=8 attn_v=8"},
        {"Q3_K_L", "output=6 attn_k=8 attn_v=8 ffn_down_exps=5"},
        {"Q3_K_M", "output=6 attn_k=8 attn_output=5 attn_v=8 ffn_down_exps=55444444444444444444444444444444"},
        {"Q3_K_S", "output=6 attn_k=8 attn_output=5 attn_v=8"},
        {"Q2_K", "output=6 attn_k=8 attn_output=5 attn_v=8 ffn_down_exps=3"},
     }},
    {{"mixtral", 9, 8, 2, 256, 512, 4, false}, {
        {"Q5_K_M", "output=6 attn_v=655655666 ffn_down_exps=655655666"},
        {"Q4_K_M", "output=6 attn_v=644644666 ffn_down_exps=644644666"},
        {"Q4_K_S", "output=6 attn_v=555544444 ffn_down_exps=544444444"},
        {"Q3_K_L", "output=6 attn_output=5 attn_v=5 ffn_down_exps=5"},
        {"Q3_K_M", "output=6 attn_output=4 attn_v=554444444 ffn_down_exps=4"},
        {"Q2_K", "output=6 attn_output=3 attn_v=4 ffn_down_exps=3"},
     }},
    {{"qwen2", 28, 8, 2, 256, 512, 0, true}, {
        {"Q5_K_M", "token_embd=6 attn_v=6665565565565565565565566666 ffn_down=6665565565565565565565566666"},
        {"Q4_K_M", "token_embd=6 attn_v=6664464464464464464464466666 ffn_down=6664464464464464464464466666"},
        {"Q4_K_S", "token_embd=6 attn_v=5555444444444444444444444444 ffn_down=5554444444444444444444444444"},
        {"Q3_K_L", "token_embd=6 attn_output=5 attn_v=5 ffn_down=5"},
        {"Q3_K_M", "token_embd=6 attn_output=4 attn_v=5544444444444444444444444444 ffn_down=5444444444444444444444444444"},
        {"Q2_K", "token_embd=6 attn_output=3 attn_v=4 ffn_down=3"},
     }},
    {{"qwen2", 80, 8, 8, 256, 512, 0, false}, {
        {"Q5_K_M", "output=6 attn_v=66666666665565565565565565565565565565565565565565565565565565565565566666666666 ffn_down=66666666665565565565565565565565565565565565565565565565565565565565566666666666"},
        {"Q4_K_M", "output=6 attn_v=66666666665565565565565565565565565565565565565565565565565565565565566666666666 ffn_down=66666666664464464464464464464464464464464464464464464464464464464464466666666666"},
        {"Q4_K_S", "output=6 attn_v=5 ffn_down=55555555554444444444444444444444444444444444444444444444444444444444444444444444"},
        {"Q3_K_L", "output=6 attn_output=5 attn_v=5 ffn_down=5"},
        {"Q3_K_M", "output=6 attn_output=4 attn_v=5 ffn_down=55555444444444444444444444444444444444444444444444444444444444444444444444444444"},
        {"Q2_K", "output=6 attn_output=3 attn_v=5 ffn_down=3"},
     }},
    {{"qwen3", 36, 8, 2, 256, 512, 0, false}, {
        {"Q5_K_M", "output=6 attn_v=666655655655655655655655655655666666 ffn_down=666655655655655655655655655655666666"},
        {"Q4_K_M", "output=6 attn_v=666644644644644644644644644644666666 ffn_down=666644644644644644644644644644666666"},
        {"Q4_K_S", "output=6 attn_v=555544444444444444444444444444444444 ffn_down=555544444444444444444444444444444444"},
        {"Q3_K_L", "output=6 attn_output=5 attn_v=5 ffn_down=5"},
        {"Q3_K_M", "output=6 attn_output=4 attn_v=554444444444444444444444444444444444 ffn_down=554444444444444444444444444444444444"},
        {"Q2_K", "output=6 attn_output=3 attn_v=4 ffn_down=3"},
     }},
    {{"qwen3moe", 24, 8, 2, 256, 512, 16, false}, {
        {"Q5_K_M", "output=6 attn_v=666556556556556556556666 ffn_down_exps=666556556556556556556666"},
        {"Q4_K_M", "output=6 attn_v=666446446446446446446666 ffn_down_exps=666446446446446446446666"},
        {"Q4_K_S", "output=6 attn_v=555544444444444444444444 ffn_down_exps=555444444444444444444444"},
        {"Q3_K_L", "output=6 attn_output=5 attn_v=5 ffn_down_exps=5"},
        {"Q3_K_M", "output=6 attn_output=4 attn_v=554444444444444444444444 ffn_down_exps=544444444444444444444444"},
        {"Q2_K", "output=6 attn_output=3 attn_v=4 ffn_down_exps=3"},
     }},
    {{"gpt2", 12, 8, 8, 256, 512, 0, true}, {
        {"F16", ""},
        {"BF16", ""},
        {"Q8_0", ""},
        {"Q6_K", ""},
        {"Q5_K_M", "token_embd=6 attn_qkv=655655655666 ffn_down=655655655666"},
        {"Q5_K_S", "token_embd=6"},
        {"Q5_1", "token_embd=6"},
        {"Q5_0", "token_embd=6"},
        {"Q4_K_M", "token_embd=6 attn_qkv=644644644666 ffn_down=644644644666"},
        {"Q4_K_S", "token_embd=6 attn_qkv=555544444444 ffn_down=544444444444"},
        {"Q4_1", "token_embd=6"},
        {"Q4_0", "token_embd=6"},
        {"Q3_K_L", "token_embd=6 attn_output=5 attn_qkv=5 ffn_down=5"},
        {"Q3_K_M", "token_embd=6 attn_output=4 attn_qkv=554444444444 ffn_down=4"},
        {"Q3_K_S", "token_embd=6"},
        {"Q2_K", "token_embd=6 attn_output=3 attn_qkv=3 ffn_down=3"},
     }},
    {{"phi3", 32, 8, 8, 256, 512, 0, false}, {
        {"Q5_K_M", "output=6 attn_qkv=66665565565565565565565565566666 ffn_down=66665565565565565565565565566666"},
        {"Q4_K_M", "output=6 attn_qkv=66664464464464464464464464466666 ffn_down=66664464464464464464464464466666"},
        {"Q4_K_S", "output=6 attn_qkv=55554444444444444444444444444444 ffn_down=55554444444444444444444444444444"},
        {"Q3_K_L", "output=6 attn_output=5 attn_qkv=5 ffn_down=5"},
        {"Q3_K_M", "output=6 attn_output=4 attn_qkv=55444444444444444444444444444444 ffn_down=55444444444444444444444444444444"},
        {"Q2_K", "output=6 attn_output=3 attn_qkv=3 ffn_down=3"},
     }},
    {{"gemma2", 26, 8, 4, 256, 512, 0, true}, {
        {"Q5_K_M", "token_embd=6 attn_v=66655655655655655655656666 ffn_down=66655655655655655655656666"},
        {"Q4_K_M", "token_embd=6 attn_v=66644644644644644644646666 ffn_down=66644644644644644644646666"},
        {"Q4_K_S", "token_embd=6 attn_v=55554444444444444444444444 ffn_down=55544444444444444444444444"},
        {"Q3_K_L", "token_embd=6 attn_output=5 attn_v=5 ffn_down=5"},
        {"Q3_K_M", "token_embd=6 attn_output=4 attn_v=55444444444444444444444444 ffn_down=54444444444444444444444444"},
        {"Q2_K", "token_embd=6 attn_output=3 attn_v=3 ffn_down=3"},
     }},
    {{"gemma3", 18, 8, 2, 256, 512, 0, true}, {
        {"Q5_K_M", "token_embd=6 attn_v=665565565565565666 ffn_down=665565565565565666"},
        {"Q4_K_M", "token_embd=6 attn_v=664464464464464666 ffn_down=664464464464464666"},
        {"Q4_K_S", "token_embd=6 attn_v=555544444444444444 ffn_down=554444444444444444"},
        {"Q3_K_L", "token_embd=6 attn_output=5 attn_v=5 ffn_down=5"},
        {"Q3_K_M", "token_embd=6 attn_output=4 attn_v=554444444444444444 ffn_down=544444444444444444"},
        {"Q2_K", "token_embd=6 attn_output=3 attn_v=4 ffn_down=3"},
     }},
    {{"llama", 4, 4, 2, 96, 160, 0, false}, {
        {"F16", ""},
        {"BF16", ""},
        {"Q8_0", ""},
        {"Q6_K", "output=8 token_embd=8 attn_k=8 attn_output=8 attn_q=8 attn_v=8 ffn_down=8 ffn_gate=8 ffn_up=8"},
        {"Q5_K_M", "output=8 token_embd=d attn_k=d attn_output=d attn_q=d attn_v=dd88 ffn_down=dd88 ffn_gate=d ffn_up=d"},
        {"Q5_K_S", "output=8 token_embd=d attn_k=d attn_output=d attn_q=d attn_v=d ffn_down=d ffn_gate=d ffn_up=d"},
        {"Q5_1", "output=8"},
        {"Q5_0", "output=8"},
        {"Q4_K_M", "output=8 token_embd=c attn_k=c attn_output=c attn_q=c attn_v=cc88 ffn_down=cc88 ffn_gate=c ffn_up=c"},
        {"Q4_K_S", "output=8 token_embd=c attn_k=c attn_output=c attn_q=c attn_v=d ffn_down=c ffn_gate=c ffn_up=c"},
        {"Q4_1", "output=8"},
        {"Q4_0", "output=8"},
        {"Q3_K_L", "output=8 token_embd=a attn_k=a attn_output=d attn_q=a attn_v=d ffn_down=d ffn_gate=a ffn_up=a"},
        {"Q3_K_M", "output=8 token_embd=a attn_k=a attn_output=c attn_q=a attn_v=ddcc ffn_down=c ffn_gate=a ffn_up=a"},
        {"Q3_K_S", "output=8 token_embd=a attn_k=a attn_output=a attn_q=a attn_v=a ffn_down=a ffn_gate=a ffn_up=a"},
        {"Q2_K", "output=8 token_embd=a attn_k=a attn_output=a attn_q=a attn_v=a ffn_down=a ffn_gate=a ffn_up=a"},
     }},
    {{"llama", 4, 4, 4, 256, 320, 0, false}, {
        {"F16", ""},
        {"BF16", ""},
        {"Q8_0", ""},
        {"Q6_K", "ffn_down=8"},
        {"Q5_K_M", "output=6 attn_v=5566 ffn_down=dd88"},
        {"Q5_K_S", "output=6 ffn_down=d"},
        {"Q5_1", "output=6"},
        {"Q5_0", "output=6"},
        {"Q4_K_M", "output=6 attn_v=4466 ffn_down=cc88"},
        {"Q4_K_S", "output=6 attn_v=5 ffn_down=c"},
        {"Q4_1", "output=6"},
        {"Q4_0", "output=6"},
        {"Q3_K_L", "output=6 attn_output=5 attn_v=5 ffn_down=d"},
        {"Q3_K_M", "output=6 attn_output=4 attn_v=5544 ffn_down=c"},
        {"Q3_K_S", "output=6 ffn_down=a"},
        {"Q2_K", "output=6 attn_output=3 attn_v=3 ffn_down=a"},
     }},
    {{"llama", 3, 4, 2, 256, 80, 0, false}, {
        {"Q5_K_M", "output=6 attn_v=556 ffn_down=h"},
        {"Q4_K_M", "output=6 attn_v=446 ffn_down=h"},
        {"Q4_K_S", "output=6 attn_v=5 ffn_down=h"},
        {"Q3_K_L", "output=6 attn_output=5 attn_v=5 ffn_down=h"},
        {"Q3_K_M", "output=6 attn_output=4 attn_v=554 ffn_down=h"},
        {"Q2_K", "output=6 attn_output=3 attn_v=3 ffn_down=h"},
        {"Q6_K", "ffn_down=h"},
        {"Q3_K_S", "output=6 ffn_down=h"},
     }},
    {{"mixtral", 3, 4, 2, 96, 160, 8, false}, {
        {"Q5_K_M", "output=8 token_embd=d attn_k=8 attn_output=d attn_q=d attn_v=8 ffn_down_exps=dd8 ffn_gate_exps=d ffn_up_exps=d"},
        {"Q4_K_M", "output=8 token_embd=c attn_k=8 attn_output=d attn_q=c attn_v=8 ffn_down_exps=cc8 ffn_gate_exps=c ffn_up_exps=c"},
        {"Q4_K_S", "output=8 token_embd=c attn_k=8 attn_output=d attn_q=c attn_v=8 ffn_down_exps=c ffn_gate_exps=c ffn_up_exps=c"},
        {"Q3_K_L", "output=8 token_embd=a attn_k=8 attn_output=a attn_q=a attn_v=8 ffn_down_exps=d ffn_gate_exps=a ffn_up_exps=a"},
        {"Q3_K_M", "output=8 token_embd=a attn_k=8 attn_output=d attn_q=a attn_v=8 ffn_down_exps=c ffn_gate_exps=a ffn_up_exps=a"},
        {"Q2_K", "output=8 token_embd=a attn_k=8 attn_output=d attn_q=a attn_v=8 ffn_down_exps=a ffn_gate_exps=a ffn_up_exps=a"},
     }},
};
// clang-format on

// The model without values.
ModelFile model_of(const ModelShape& shape) {
  RandomModelOptions options;
  options.architecture = shape.layout;
  options.vocabulary_size = 400;
  options.context_length = 64;
  options.block_count = shape.layers;
  options.head_count = shape.heads;
  options.head_count_kv = shape.kv_heads;
  options.embedding_length = shape.dim;
  options.feed_forward_length = shape.ff;
  if (shape.experts != 0) options.expert_count = shape.experts;
  options.tied = shape.tied;
  options.matrix_type = options.vocabulary_type = DType::kF32;
  for (const RandomArchitecture& row : random_architectures()) {
    if (row.name != options.architecture) continue;
    Metadata metadata("facts");
    metadata.set("general.architecture", std::string(row.architecture));
    row.add_metadata(options, metadata);
    std::vector<NamedTensor> tensors;
    for (const TensorPlan& plan : row.plan(options))
      tensors.emplace_back(plan.name, plan.dtype, plan.shape, std::function<Tensor()>());
    return ModelFile("test", "facts", std::move(metadata), std::move(tensors), {});
  }
  return ModelFile("test", "facts", Metadata("facts"), {}, {});
}

// "blk.7.attn_v.weight" as "attn_v" and 7.
std::pair<std::string, size_t> kind_and_layer(const std::string& name) {
  const std::string stem = name.substr(0, name.rfind('.'));
  if (!stem.starts_with("blk.")) return {stem, 0};
  const size_t dot = stem.find('.', 4);
  return {stem.substr(dot + 1), std::stoul(stem.substr(4, dot - 4))};
}

std::map<std::string, std::string> parse_kinds(std::string_view text) {
  std::map<std::string, std::string> kinds;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size()), equals = text.find('=');
    kinds.emplace(text.substr(0, equals), text.substr(equals + 1, space - equals - 1));
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return kinds;
}

TEST(FileTypeRules, AreLlamaQuantizes) {
  size_t compared = 0;
  for (const auto& [shape, choices] : kCases) {
    const ModelFile file = model_of(shape);
    ASSERT_GT(file.tensors().size(), 2u * shape.layers) << shape.layout;
    for (const Choice& choice : choices) {
      const FileType& type = *file_type_by_name(choice.file_type);
      const auto kinds = parse_kinds(choice.kinds);
      const std::vector<DType> planned = plan_types(file, type);
      for (size_t i = 0; i < planned.size(); ++i) {
        const NamedTensor& tensor = file.tensors()[i];
        const auto [kind, layer] = kind_and_layer(tensor.name);
        DType expected = is_quantisable(tensor) ? type.base : DType::kF32;
        if (const auto at = kinds.find(kind); at != kinds.end() && is_quantisable(tensor))
          expected = kLetters.at(at->second.size() == 1 ? at->second[0] : at->second.at(layer));
        EXPECT_EQ(dtype_name(planned[i]), dtype_name(expected))
            << shape.layout << " of " << shape.layers << " layers, " << type.name << ": " << tensor.name;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 30000u);
}

// What llama-quantize refuses ("no tensor type fallback"): rows that even blocks of 32 do not divide.
TEST(FileTypeRules, RowsWithoutAnyBlockStayF16) {
  const ModelFile file = model_of({"llama", 2, 2, 2, 48, 80, 0, false});
  const auto planned = plan_types(file, *file_type_by_name("Q4_K_M"));
  for (size_t i = 0; i < planned.size(); ++i)
    EXPECT_EQ(planned[i], is_quantisable(file.tensors()[i]) ? DType::kF16 : DType::kF32)
        << file.tensors()[i].name;
}

}  // namespace
}  // namespace butterfly::model
