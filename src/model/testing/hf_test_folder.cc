#include "model/testing/hf_test_folder.h"

#include <cstring>

#include "base/json_text.h"

namespace butterfly::model::testing {

std::string safetensors_bytes(const std::vector<HfTestTensor>& tensors, const std::string& type) {
  nlohmann::ordered_json header;
  std::string data;
  const size_t value_bytes = type == "F32" ? 4 : type == "U8" ? 1 : 2;
  for (size_t t = 0; t < tensors.size(); ++t) {
    size_t count = 1;
    for (const int64_t size : tensors[t].sizes) count *= static_cast<size_t>(size);
    const size_t begin = data.size();
    for (size_t i = 0; i < count; ++i) {
      const float value = static_cast<float>(t) + static_cast<float>(i) / 1024;
      char bytes[4];
      std::memcpy(bytes, &value, 4);
      if (type == "U8") bytes[3] = static_cast<char>(31 * t + 7 * i);
      data.append(bytes + 4 - value_bytes, value_bytes);
    }
    header[tensors[t].name] = {
        {"dtype", type}, {"shape", tensors[t].sizes}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = json_text(header);
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + text + data;
}

nlohmann::json tiny_config(const std::string& class_name) {
  if (class_name == "GPT2LMHeadModel")
    return {{"architectures", {class_name}},
            {"n_embd", 8},
            {"n_layer", 1},
            {"n_head", 2},
            {"n_ctx", 16},
            {"vocab_size", 5},
            {"layer_norm_epsilon", 1e-5},
            {"n_inner", 12}};
  return {{"architectures", {class_name}},
          {"hidden_size", 8},
          {"num_hidden_layers", 1},
          {"num_attention_heads", 2},
          {"num_key_value_heads", 1},
          {"head_dim", 4},
          {"intermediate_size", 12},
          {"max_position_embeddings", 32},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 50000.0},
          {"vocab_size", 5}};
}

}  // namespace butterfly::model::testing
