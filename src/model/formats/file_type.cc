#include "model/formats/file_type.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "model/formats/float_type.h"

namespace butterfly::model {
namespace {

constexpr FileType kFileTypes[] = {
    {"F32", 0, DType::kF32, "32 bits, exact"},
    {"F16", 1, DType::kF16, "16 bits"},
    {"BF16", 32, DType::kBF16, "16 bits, the range of F32"},
    {"Q8_0", 7, DType::kQ8_0, "8.5 bits, hardly distinguishable from F16"},
    {"Q6_K", 18, DType::kQ6_K, "6.6 bits"},
    {"Q5_K_M", 17, DType::kQ5_K, "5.5 bits, some tensors Q6_K"},
    {"Q5_K_S", 16, DType::kQ5_K, "5.5 bits"},
    {"Q5_1", 9, DType::kQ5_1, "6 bits"},
    {"Q5_0", 8, DType::kQ5_0, "5.5 bits"},
    {"Q4_K_M", 15, DType::kQ4_K, "4.5 bits, some tensors Q6_K; the usual choice"},
    {"Q4_K_S", 14, DType::kQ4_K, "4.5 bits, a few tensors Q5_K"},
    {"Q4_1", 3, DType::kQ4_1, "5 bits"},
    {"Q4_0", 2, DType::kQ4_0, "4.5 bits, fast"},
    {"Q3_K_L", 13, DType::kQ3_K, "3.4 bits, some tensors Q5_K"},
    {"Q3_K_M", 12, DType::kQ3_K, "3.4 bits, some tensors Q4_K and Q5_K"},
    {"Q3_K_S", 11, DType::kQ3_K, "3.4 bits"},
    {"Q2_K", 10, DType::kQ2_K, "2.6 bits, some tensors Q3_K"},
    {"Q2_K_S", 21, DType::kQ2_K, "2.6 bits, a few tensors Q4_K"},
};

struct Alias {
  std::string_view name;
  std::string_view type;
};
constexpr Alias kAliases[] = {{"Q3_K", "Q3_K_M"}, {"Q4_K", "Q4_K_M"}, {"Q5_K", "Q5_K_M"}};

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::toupper(x) == std::toupper(y); });
}

bool has(std::string_view name, std::string_view part) { return name.find(part) != std::string_view::npos; }

// Parts of names: norms, routers, tables of positions, and small tensors of state-space and recurrent layers,
// of multimodal parts and of sound codecs.
constexpr std::string_view kKeptAsFloats[] = {"_norm.weight",
                                              "ffn_gate_inp.weight",
                                              "ffn_gate_tid2eid.weight",
                                              "position_embd",
                                              "token_types",
                                              "altup",
                                              "laurel",
                                              "per_layer_model_proj",
                                              "ssm_conv1d",
                                              "shortconv.conv.weight",
                                              "indexer.k_proj.weight",
                                              "indexer.q_proj.weight",
                                              "time_mix_first",
                                              "time_mix_w0",
                                              "time_mix_w1",
                                              "time_mix_w2",
                                              "time_mix_v0",
                                              "time_mix_v1",
                                              "time_mix_v2",
                                              "time_mix_a0",
                                              "time_mix_a1",
                                              "time_mix_a2",
                                              "time_mix_g1",
                                              "time_mix_g2",
                                              "time_mix_decay_w1",
                                              "time_mix_decay_w2",
                                              "time_mix_lerp_fused",
                                              "attn_rel_b.weight",
                                              "sam.pos_embd",
                                              "sam.neck.",
                                              "sam.net_",
                                              ".rel_pos",
                                              ".patch_embd",
                                              ".patch_merger",
                                              "a.rvq.codebook",
                                              "mm.a.code_embd"};

// One row is a vector, whatever its rank.
bool is_matrix(const Shape& shape) {
  for (size_t axis = 0; axis + 1 < shape.rank(); ++axis)
    if (shape[axis] > 1) return true;
  return false;
}

enum class Role { kOutput, kEmbedding, kAttnV, kAttnK, kAttnOutput, kFfnDown, kOther };

Role role_of(std::string_view name) {
  if (name == "output.weight") return Role::kOutput;
  if (name == "token_embd.weight" || name == "per_layer_token_embd.weight") return Role::kEmbedding;
  if (has(name, "attn_v.weight") || has(name, "attn_qkv.weight") || has(name, "attn_kv_b.weight"))
    return Role::kAttnV;
  if (has(name, "attn_k.weight")) return Role::kAttnK;
  if (has(name, "attn_output.weight")) return Role::kAttnOutput;
  if (has(name, "ffn_down")) return Role::kFfnDown;
  return Role::kOther;
}

// N of "blk.N.": 0 for other names.
uint32_t layer_of(std::string_view name) {
  uint32_t layer = 0;
  if (name.starts_with("blk.")) std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return layer;
}

// One number, or a list by layer: then the largest.
uint32_t kv_heads_of(const Metadata& metadata, const std::string& key, uint32_t otherwise) {
  const MetaValue* value = metadata.find(key);
  if (value == nullptr || !std::holds_alternative<MetaArray>(*value)) return metadata.u32_or(key, otherwise);
  const std::vector<int32_t> numbers = metadata.i32s(key);
  const int32_t most = numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end());
  return most > 0 ? static_cast<uint32_t>(most) : otherwise;
}

// Facts of the model that the rules ask for.
struct Model {
  uint32_t layers = 0;
  uint32_t experts = 0;
  uint32_t group = 1;  // heads per key/value head
  bool is_70b = false;
  bool tied = true;

  explicit Model(const ModelFile& file) {
    const Metadata& metadata = file.metadata();
    const std::string arch = metadata.string_or("general.architecture", "");
    layers = metadata.u32_or(arch + ".block_count", 0);
    experts = metadata.u32_or(arch + ".expert_count", 0);
    const uint32_t heads = metadata.u32_or(arch + ".attention.head_count", 1);
    const uint32_t kv_heads = kv_heads_of(metadata, arch + ".attention.head_count_kv", heads);
    if (kv_heads > 0) group = heads / kv_heads;
    is_70b = layers == 80 && ((arch == "llama" && heads != kv_heads) || arch == "qwen2");
    tied = !file.has("output.weight");
  }
};

// A rule chooses by layer; the first and last eighth of them and every third between get more bits.
bool more_bits(uint32_t layer, uint32_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

DType attn_v_type(std::string_view mix, DType base, const Model& m, uint32_t layer) {
  DType type = base;
  if (mix == "Q2_K") type = m.group >= 4 ? DType::kQ4_K : DType::kQ3_K;
  if (mix == "Q2_K_S" && m.group >= 4) type = DType::kQ4_K;
  if (mix == "Q3_K_M") type = layer < 2 ? DType::kQ5_K : DType::kQ4_K;
  if (mix == "Q3_K_L") type = DType::kQ5_K;
  if ((mix == "Q4_K_M" || mix == "Q5_K_M") && more_bits(layer, m.layers)) type = DType::kQ6_K;
  if (mix == "Q4_K_S" && layer < 4) type = DType::kQ5_K;
  // Eight heads share one attn_v there, so more bits cost next to nothing.
  if (m.is_70b && (type == DType::kQ3_K || type == DType::kQ4_K)) type = DType::kQ5_K;
  return m.experts == 8 ? DType::kQ8_0 : type;
}

DType ffn_down_type(std::string_view mix, DType base, const Model& m, uint32_t layer) {
  if (mix == "Q2_K") return DType::kQ3_K;
  if (mix == "Q2_K_S" && layer < m.layers / 8) return DType::kQ4_K;
  if (mix == "Q3_K_M") return layer < m.layers / 16 ? DType::kQ5_K : DType::kQ4_K;
  if (mix == "Q3_K_L") return DType::kQ5_K;
  if ((mix == "Q4_K_M" || mix == "Q5_K_M") && more_bits(layer, m.layers)) return DType::kQ6_K;
  if (mix == "Q4_K_S" && layer < m.layers / 8) return DType::kQ5_K;
  return base;
}

DType attn_output_type(std::string_view mix, DType base, const Model& m) {
  if (m.experts == 8) {
    const bool few_bits = mix == "Q2_K" || mix == "Q3_K_S" || mix == "Q3_K_M" || mix.starts_with("Q4_K");
    return few_bits ? DType::kQ5_K : base;
  }
  if (mix == "Q2_K") return DType::kQ3_K;
  if (mix == "Q3_K_M") return DType::kQ4_K;
  if (mix == "Q3_K_L") return DType::kQ5_K;
  return base;
}

DType output_type(DType base, int64_t columns) {
  if (columns % dtype_info(base).block_values != 0) return DType::kQ8_0;
  return base == DType::kQ8_0 ? base : DType::kQ6_K;
}

DType mixed_type(const NamedTensor& tensor, const FileType& type, const Model& model) {
  const uint32_t layer = layer_of(tensor.name);
  switch (role_of(tensor.name)) {
    case Role::kOutput:
      return output_type(type.base, tensor.shape.back());
    case Role::kEmbedding:
      return model.tied ? output_type(type.base, tensor.shape.back()) : type.base;
    case Role::kAttnV:
      return attn_v_type(type.name, type.base, model, layer);
    case Role::kAttnK:
      return model.experts == 8 ? DType::kQ8_0 : type.base;
    case Role::kAttnOutput:
      return attn_output_type(type.name, type.base, model);
    case Role::kFfnDown:
      return ffn_down_type(type.name, type.base, model, layer);
    case Role::kOther:
      break;
  }
  return type.base;
}

}  // namespace

std::span<const FileType> file_types() { return kFileTypes; }

const FileType* file_type_by_name(std::string_view name) {
  for (const Alias& alias : kAliases)
    if (same_name(alias.name, name)) name = alias.type;
  for (const FileType& type : kFileTypes)
    if (same_name(type.name, name)) return &type;
  return nullptr;
}

uint32_t file_type_number(DType dtype) {
  constexpr uint32_t kGuessed = 1024;
  const FileType* type = file_type_by_name(dtype_info(dtype).name);
  return type == nullptr ? kGuessed : type->number;
}

bool is_quantisable(const NamedTensor& tensor) {
  const std::string_view name = tensor.name;
  const bool values =
      tensor.foreign_type.empty() && (is_float(tensor.dtype) || dtype_info(tensor.dtype).quantised());
  const bool kept = std::any_of(std::begin(kKeptAsFloats), std::end(kKeptAsFloats),
                                [name](std::string_view part) { return has(name, part); });
  return values && is_matrix(tensor.shape) && name.ends_with("weight") && !kept;
}

DType type_for_row(DType type, int64_t columns) {
  const auto fits = [columns](DType dtype) { return columns % dtype_info(dtype).block_values == 0; };
  if (fits(type)) return type;
  switch (type) {
    case DType::kQ2_K:
    case DType::kQ3_K:
      type = DType::kQ4_0;
      break;
    case DType::kQ4_K:
      type = DType::kQ5_0;
      break;
    case DType::kQ5_K:
      type = DType::kQ5_1;
      break;
    case DType::kQ6_K:
      type = DType::kQ8_0;
      break;
    default:
      break;
  }
  return fits(type) ? type : DType::kF16;
}

std::vector<DType> plan_types(const ModelFile& file, const FileType& type, bool pure) {
  const Model model(file);
  const bool quantised = dtype_info(type.base).quantised();
  std::vector<DType> types;
  for (const NamedTensor& tensor : file.tensors()) {
    DType chosen = tensor.dtype;
    if (is_quantisable(tensor)) {
      chosen = quantised && !pure ? mixed_type(tensor, type, model) : type.base;
      chosen = type_for_row(chosen, tensor.shape.back());
    } else if (chosen == DType::kF16 || chosen == DType::kBF16) {
      chosen = DType::kF32;  // small, and other programs expect it
    }
    types.push_back(chosen);
  }
  return types;
}

}  // namespace butterfly::model
