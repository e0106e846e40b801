// Adapters as PEFT saves them: a folder with adapter_config.json and adapter_model.safetensors.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/printable.h"
#include "model/adapter/adapter.h"
#include "model/adapter/adapter_modules.h"
#include "model/adapter/rope_rows.h"
#include "model/formats/json_file.h"

namespace butterfly::model {
namespace {

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
    if (!target || target->values == HfValues::kIgnore ||
        (target->name == kEmbeddingTensor) != ending->embedding)
      fail(Errc::kUnsupported, "{}: module {} is no matrix of architecture '{}' that adapters can add to",
           file.name(), printable(module), base.architecture());
    values[target->name] = target->values;
    if (target->values == HfValues::kExpert) {
      const NamedTensor* stacked = base.find(target->name);
      pairs.add_expert(target->name, stacked == nullptr ? Shape() : stacked->shape, target->expert,
                       ending->is_a, info.name, file.tensor(info));
      continue;
    }
    pairs.add(target->name, ending->is_a, info.name, file.tensor(info), ending->is_a && ending->embedding);
  }
  Adapter adapter{.path = spec.path,
                  .alpha = config.f32_or("lora_alpha", 0),
                  .by_root = config.boolean_or("use_rslora", false),
                  .scale = spec.scale,
                  .pairs = std::move(pairs).finish()};
  for (LoraPair& pair : adapter.pairs)
    pair.b = rope_rows(file.name(), pair, values[pair.target], base, RopeRows::kToGguf);
  return adapter;
}

}  // namespace butterfly::model
