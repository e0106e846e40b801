// A small trained GPT-2 that sorts letters, as minGPT saved it: PyTorch's logits, and the sorted
// letters.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "base/json_text.h"
#include "model/formats/gguf_writer.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

std::vector<float> decode_base64(const std::string& text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) continue;  // padding
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count >= 8) bytes.push_back(static_cast<char>(bits >> (count -= 8) & 255));
  }
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

std::vector<float> values_of(const nlohmann::json& entry) {
  return decode_base64(entry["data"].get<std::string>());
}

// GGUF's name of one of minGPT's tensors; empty for the causal masks.
std::string gguf_name(std::string name) {
  const std::map<std::string, std::string> names = {{"transformer.wte", "token_embd"},
                                                    {"transformer.wpe", "position_embd"},
                                                    {"transformer.ln_f", "output_norm"},
                                                    {"lm_head", "output"},
                                                    {"ln_1", "attn_norm"},
                                                    {"ln_2", "ffn_norm"},
                                                    {"attn.c_attn", "attn_qkv"},
                                                    {"attn.c_proj", "attn_output"},
                                                    {"mlp.c_fc", "ffn_up"},
                                                    {"mlp.c_proj", "ffn_down"}};
  const size_t dot = name.rfind('.');
  const std::string suffix = name.substr(dot);
  name.resize(dot);
  std::string prefix;
  if (name.starts_with("transformer.h.")) {
    prefix = "blk." + name.substr(14, 2);
    name.erase(0, 16);
  }
  const auto found = names.find(name);
  return found == names.end() ? "" : prefix + found->second + suffix;
}

TEST(GptNano, LogitsArePyTorchsAndTheLettersAreSorted) {
  const auto dir = testing::kModels / "gpt-nano-sort";
  BF_SKIP_WITHOUT(dir);
  const auto weights = json_of_text<nlohmann::json>(testing::read_text(dir / "gpt-nano-sort-model.json"));
  model::Metadata metadata;
  metadata.set("general.architecture", std::string("gpt2"));
  const std::pair<const char*, uint32_t> sizes[] = {{"context_length", 11},
                                                    {"embedding_length", 48},
                                                    {"block_count", 3},
                                                    {"feed_forward_length", 192},
                                                    {"attention.head_count", 3}};
  for (const auto& [key, value] : sizes) metadata.set(std::string("gpt2.") + key, value);
  metadata.set("gpt2.attention.layer_norm_epsilon", 1e-5f);
  model::GgufWriter writer(std::move(metadata));
  for (const auto& [name, entry] : weights.items()) {
    if (name == "config") continue;
    const std::string to = gguf_name(name);
    if (to.empty()) continue;
    const auto shape = entry["shape"].get<std::vector<int64_t>>();
    Tensor tensor =
        Tensor::zeros(DType::kF32, shape.size() == 1 ? Shape{shape[0]} : Shape{shape[0], shape[1]});
    const auto values = values_of(entry);
    ASSERT_EQ(values.size(), static_cast<size_t>(tensor.count())) << name;
    std::copy(values.begin(), values.end(), tensor.data<float>());
    writer.add_tensor(to, tensor);
  }
  const auto path =
      std::filesystem::temp_directory_path() / ("butterfly-gpt-nano-" + std::to_string(getpid()) + ".gguf");
  writer.write(path);
  testing::Loaded loaded(path, 2, /*with_tokenizer=*/false);
  std::filesystem::remove(path);

  const auto partials =
      json_of_text<nlohmann::json>(testing::read_text(dir / "gpt-nano-sort-t0-partials.json"));
  const auto letters = values_of(partials["idx"]), want = values_of(partials["lm_head"]);
  double worst = 0;
  for (size_t batch = 0; batch < 3; ++batch) {
    CachedLayers layers(*loaded.model, loaded.pool,
                        {.positions = 0, .sequences = 1, .kv_type = DType::kF32, .rows_max = 512});
    std::vector<BatchRow> rows;
    for (uint32_t i = 0; i < 11; ++i)
      rows.push_back({static_cast<int32_t>(letters[batch * 11 + i]), 0, i, true});
    const auto logits = layers.run(rows);
    ASSERT_EQ(logits.size(), 33u);
    for (size_t i = 0; i < 33; ++i)
      worst = std::max(worst, std::abs(double{logits[i]} - want[batch * 33 + i]));
    // The first six letters are the question; the last six outputs are the answer.
    std::vector<float> sorted(letters.begin() + static_cast<ptrdiff_t>(batch * 11),
                              letters.begin() + static_cast<ptrdiff_t>(batch * 11 + 6));
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < 6; ++i) {
      const auto row = logits.subspan((5 + i) * 3, 3);
      EXPECT_EQ(std::max_element(row.begin(), row.end()) - row.begin(), static_cast<ptrdiff_t>(sorted[i]));
    }
    // There are as many positions as were learned.
    EXPECT_THROW(layers.run(std::vector<BatchRow>{{0, 0, 11, true}}), Error);
  }
  EXPECT_LT(worst, 1e-5);
}

}  // namespace
}  // namespace butterfly::runtime
