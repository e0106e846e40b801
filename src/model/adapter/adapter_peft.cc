// Adapters as PEFT saves them: a folder with adapter_config.json and adapter_model.safetensors.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/printable.h"
#include "model/adapter/adapter.h"
#include "model/formats/hf_architecture.h"
#include "model/formats/json_file.h"

namespace butterfly::model {
namespace {

struct Target {
  std::string name;  // GGUF's
  HfValues values;
};

// "layers.3.self_attn.q_proj" as the pattern "layers.#.self_attn.q_proj" and 3.
struct Pattern {
  std::string text;
  std::string number;
};
Pattern pattern_of(std::string_view module) {
  Pattern pattern;
  while (!module.empty()) {
    const size_t dot = std::min(module.find('.'), module.size());
    const std::string_view part = module.substr(0, dot);
    const bool number = part.find_first_not_of("0123456789") == std::string_view::npos;
    if (number && pattern.number.empty()) {
      pattern.number = part;
      pattern.text += '#';
    } else {
      pattern.text += part;
    }
    if (dot < module.size()) pattern.text += '.';
    module.remove_prefix(std::min(dot + 1, module.size()));
  }
  return pattern;
}

// The tensor that a module of the Hugging Face model is in GGUF.
std::optional<Target> target_of(std::string_view module, std::string_view architecture) {
  for (std::string_view prefix : {"language_model.", "model.", "transformer."})
    if (module.starts_with(prefix)) module.remove_prefix(prefix.size());
  const Pattern pattern = pattern_of(std::string(module) + ".weight");
  for (const HfArchitecture& row : hf_architectures()) {
    if (row.gguf_name != architecture) continue;
    for (const auto& rules : row.rules)
      for (const HfRule& rule : rules) {
        if (rule.from != pattern.text) continue;
        std::string name(rule.to);
        if (const size_t at = name.find('#'); at != std::string::npos) name.replace(at, 1, pattern.number);
        return Target{name, rule.values};
      }
  }
  return std::nullopt;
}

// GGUF's llama rotates neighbours, Hugging Face's the halves of a head: rows of B move as those of the matrix
// did.
Tensor paired_rows(const std::string& file, const LoraPair& pair, uint32_t heads) {
  const int64_t rows = pair.b.size(0), rank = pair.b.size(1);
  if (heads == 0 || rows % (2 * int64_t{heads}) != 0)
    fail(Errc::kInvalidArgument, "{}: {}: {} rows do not divide into {} heads of pairs", file, pair.target,
         rows, heads);
  const int64_t head_dim = rows / heads, half = head_dim / 2;
  Tensor moved = Tensor::zeros(DType::kF32, pair.b.shape());
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t in_head = row % head_dim;
    const int64_t to = row - in_head + 2 * (in_head % half) + in_head / half;
    std::copy_n(pair.b.data<float>() + row * rank, rank, moved.data<float>() + to * rank);
  }
  return moved;
}

// The two matrices of a module, by the end of their names. Those of an embedding have other names, and its A
// is [rank, vocabulary].
struct Ending {
  std::string_view text;
  bool is_a;
  bool embedding;
};
constexpr Ending kEndings[] = {{".lora_A.weight", true, false},
                               {".lora_B.weight", false, false},
                               {".lora_embedding_A", true, true},
                               {".lora_embedding_B", false, true}};

void check_config(const JsonObject& config) {
  const std::string type = config.string_or("peft_type", "LORA");
  if (type != "LORA")
    fail(Errc::kUnsupported, "{}: key peft_type: expected LORA, found {}", config.file(), type);
  if (config.boolean_or("use_dora", false))
    fail(Errc::kUnsupported, "{}: key use_dora: weight-decomposed adapters are not supported", config.file());
  for (const char* key : {"rank_pattern", "alpha_pattern"})
    if (const auto* pattern = config.find(key); pattern != nullptr && !pattern->empty())
      fail(Errc::kUnsupported, "{}: key {}: settings for single modules are not supported", config.file(),
           key);
}

}  // namespace

Adapter read_peft_adapter(const AdapterSpec& spec, std::string_view config_text, const SafetensorsFile& file,
                          const ModelFile& base) {
  const std::string config_name = (spec.path / kPeftConfig).string();
  const auto json = parse_json(config_text, config_name);
  const JsonObject config(json, config_name);
  check_config(config);
  constexpr std::string_view kPrefix = "base_model.model.";
  LoraPairs pairs(file.name());
  std::map<std::string, HfValues> values;
  for (const SafetensorsTensor& info : file.tensors()) {
    std::string_view module = info.name;
    const auto* ending = std::find_if(std::begin(kEndings), std::end(kEndings),
                                      [module](const Ending& row) { return module.ends_with(row.text); });
    if (!module.starts_with(kPrefix) || ending == std::end(kEndings) ||
        module.size() < kPrefix.size() + ending->text.size())
      fail(Errc::kUnsupported, "{}: tensor {}: expected {}<module>{} or {}", file.name(),
           printable(info.name), kPrefix, kEndings[0].text, kEndings[1].text);
    module.remove_prefix(kPrefix.size());
    module.remove_suffix(ending->text.size());
    const auto target = target_of(module, base.architecture());
    if (!target || target->values == HfValues::kExpert || target->values == HfValues::kIgnore ||
        (target->name == kEmbeddingTensor) != ending->embedding)
      fail(Errc::kUnsupported, "{}: module {} is no matrix of architecture '{}' that adapters can add to",
           file.name(), printable(module), base.architecture());
    values[target->name] = target->values;
    pairs.add(target->name, ending->is_a, info.name, file.tensor(info), ending->is_a && ending->embedding);
  }
  Adapter adapter{.path = spec.path,
                  .alpha = config.f32_or("lora_alpha", 0),
                  .by_root = config.boolean_or("use_rslora", false),
                  .scale = spec.scale,
                  .pairs = std::move(pairs).finish()};
  const std::string heads = base.architecture() + ".attention.head_count";
  const uint32_t q_heads = base.metadata().u32(heads);
  const auto kv_heads = static_cast<uint32_t>(base.metadata().u64_or(heads + "_kv", q_heads));
  for (LoraPair& pair : adapter.pairs) {
    if (values[pair.target] == HfValues::kRopePairsQ) pair.b = paired_rows(file.name(), pair, q_heads);
    if (values[pair.target] == HfValues::kRopePairsKv) pair.b = paired_rows(file.name(), pair, kv_heads);
  }
  return adapter;
}

}  // namespace butterfly::model
