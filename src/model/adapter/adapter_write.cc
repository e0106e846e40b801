#include "model/adapter/adapter_write.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_text.h"
#include "model/adapter/adapter_modules.h"
#include "model/adapter/rope_rows.h"
#include "model/formats/file_sink.h"
#include "model/formats/gguf_writer.h"

namespace butterfly::model {
namespace {

using Json = nlohmann::ordered_json;

void write_text(const std::filesystem::path& path, const std::string& text) {
  FileSink sink(path);
  sink.write(std::as_bytes(std::span(text)));
  sink.commit();
}

// F32 tensors by name, in the order of their names.
void write_safetensors(const std::filesystem::path& path, const std::map<std::string, Tensor>& tensors) {
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  uint64_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", "F32"},
                    {"shape", {tensor.size(0), tensor.size(1)}},
                    {"data_offsets", {at, at + tensor.bytes()}}};
    at += tensor.bytes();
  }
  std::string text = json_text(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  FileSink sink(path);
  sink.write(std::as_bytes(std::span(&length, 1)));
  sink.write(std::as_bytes(std::span(text)));
  for (const auto& [name, tensor] : tensors) sink.write({tensor.raw(), tensor.bytes()});
  sink.commit();
}

// A module whose matrix is the tensor, perhaps with rows in another order.
AdapterModule own_module(const LoraPair& pair, const ModelFile& base) {
  const auto module = module_of(pair.target, base.architecture());
  const auto fits = [](HfValues values) {
    return values == HfValues::kAsStored || values == HfValues::kRopePairsQ ||
           values == HfValues::kRopePairsKv || values == HfValues::kTranspose || values == HfValues::kExpert;
  };
  if (!module || !fits(module->values))
    fail(Errc::kUnsupported,
         "{} of architecture '{}' is no module of its own in Hugging Face's model, so PEFT has no place for "
         "its adapter",
         pair.target, base.architecture());
  return *module;
}

// Each expert is a module of its own, whose number stands where `stem` has @.
void add_experts(const LoraPair& pair, const std::string& stem, std::map<std::string, Tensor>& tensors) {
  for (int64_t e = 0; e < pair.b.size(0); ++e) {
    std::string name = stem;
    name.replace(name.find('@'), 1, std::to_string(e));
    for (const auto& [suffix, all] : {std::pair(".lora_A.weight", &pair.a), {".lora_B.weight", &pair.b}})
      tensors[name + suffix] = all->slice(0, e, e + 1).reshape({all->size(1), all->size(2)});
  }
}

}  // namespace

void write_gguf_adapter(const std::filesystem::path& path, const Adapter& adapter, const ModelFile& base,
                        const std::map<std::string, std::string>& keys) {
  Metadata metadata("adapter");
  metadata.set("general.architecture", base.architecture());
  metadata.set("general.type", std::string("adapter"));
  metadata.set("adapter.type", std::string("lora"));
  const auto rank = static_cast<float>(adapter.pairs.at(0).rank());
  metadata.set("adapter.lora.alpha", adapter.by_root ? adapter.alpha * std::sqrt(rank) : adapter.alpha);
  for (const auto& [key, value] : keys) metadata.set(key, value);
  GgufWriter writer(std::move(metadata));
  for (const LoraPair& pair : adapter.pairs) {
    writer.add_tensor(pair.target + ".lora_a", pair.a);
    writer.add_tensor(pair.target + ".lora_b", pair.b);
  }
  writer.write(path);
}

std::string why_no_peft(const Adapter& adapter, const ModelFile& base) {
  try {
    for (const LoraPair& pair : adapter.pairs) own_module(pair, base);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

void write_peft_adapter(const std::filesystem::path& folder, const Adapter& adapter, const ModelFile& base,
                        const PeftOptions& options) {
  std::map<std::string, Tensor> tensors;
  std::set<std::string> modules;
  bool transposed = false;
  for (const LoraPair& pair : adapter.pairs) {
    const AdapterModule module = own_module(pair, base);
    const std::string stem = "base_model.model." + module.name;
    modules.emplace(module.last());
    if (module.values == HfValues::kExpert) {
      add_experts(pair, stem, tensors);
      continue;
    }
    tensors[stem + ".lora_A.weight"] = pair.a;
    tensors[stem + ".lora_B.weight"] =
        rope_rows(folder.string(), pair, module.values, base, RopeRows::kFromGguf);
    transposed |= module.values == HfValues::kTranspose;
  }
  const Json config = {{"peft_type", "LORA"},
                       {"task_type", "CAUSAL_LM"},
                       {"base_model_name_or_path", options.base_name},
                       {"r", adapter.pairs.at(0).rank()},
                       {"lora_alpha", adapter.alpha},
                       {"lora_dropout", options.dropout},
                       {"use_rslora", adapter.by_root},
                       {"target_modules", modules},
                       {"fan_in_fan_out", transposed},
                       {"bias", "none"},
                       {"modules_to_save", nullptr},
                       {"init_lora_weights", true},
                       {"inference_mode", true}};
  std::filesystem::create_directories(folder);
  write_safetensors(folder / kPeftWeights, tensors);
  write_text(folder / kPeftConfig, json_text(config, 2) + "\n");
}

}  // namespace butterfly::model
