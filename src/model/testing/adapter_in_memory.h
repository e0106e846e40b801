// What adapter_fuzz.cc reads and the test of its seeds: adapters in memory, for a model of names and shapes.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "model/adapter/adapter.h"
#include "model/formats/gguf.h"
#include "model/testing/fuzz_parts.h"

namespace butterfly::model::testing {

// A llama of one block without values: only names and shapes are asked for.
inline ModelFile fuzz_base_model() {
  Metadata metadata("base");
  metadata.set("general.architecture", std::string("llama"));
  metadata.set("llama.attention.head_count", uint32_t{2});
  metadata.set("llama.attention.head_count_kv", uint32_t{1});
  std::vector<NamedTensor> tensors;
  const auto add = [&](const char* name, int64_t out, int64_t in) {
    tensors.emplace_back(name, DType::kF32, Shape{out, in}, std::function<Tensor()>());
  };
  add("token_embd.weight", 32, 8);
  add("blk.0.attn_q.weight", 8, 8);
  add("blk.0.attn_k.weight", 4, 8);
  add("blk.0.attn_v.weight", 4, 8);
  add("blk.0.attn_output.weight", 8, 8);
  add("blk.0.ffn_up.weight", 16, 8);
  add("blk.0.ffn_down.weight", 8, 16);
  add("output.weight", 32, 8);
  return ModelFile("test", "base", std::move(metadata), std::move(tensors), {});
}

inline ModelFile gguf_in_memory(std::span<const std::byte> bytes) {
  const GgufFile file = GgufFile::parse(bytes, "fuzz.gguf");
  std::vector<NamedTensor> tensors;
  for (const GgufTensor& info : file.tensors())
    tensors.emplace_back(info.name, file.tensor(info), info.offset);
  return ModelFile("gguf", "fuzz.gguf", file.metadata(), std::move(tensors), {});
}

// A GGUF file, or a config and a safetensors file as FuzzParts has them. Throws Error as the readers do.
inline Adapter adapter_in_memory(std::span<const uint8_t> bytes, const ModelFile& base) {
  const bool gguf = is_gguf(std::as_bytes(bytes));
  const FuzzParts parts(bytes.data(), bytes.size(), !gguf);
  const AdapterSpec spec{"fuzz", 0.5f};
  if (gguf) return read_gguf_adapter(spec, gguf_in_memory(parts.file()), base);
  return read_peft_adapter(spec, parts.text(), SafetensorsFile::parse(parts.file(), "fuzz.safetensors"),
                           base);
}

// The matrices of a pair fit the tensor it changes; throws Error if they do not. False if there is no such
// tensor, or the parts are not what they should be.
inline bool fits(const Adapter& adapter, const LoraPair& pair, const ModelFile& base) {
  const NamedTensor* target = base.find(pair.target);
  if (target == nullptr) return false;
  if (pair.target == kEmbeddingTensor) {
    const nn::LowRank rows = low_rank_rows(adapter, pair, base, target->shape);
    return rows.a.value.size(1) == rows.b.value.size(1);
  }
  const int64_t rows = target->shape[0];
  const nn::LowRank half = low_rank(adapter, pair, base, target->shape,
                                    [&](const Tensor& b) { return b.slice(0, rows - rows / 2, rows); });
  return half.b.value.size(0) == target->shape[0] / 2;
}

}  // namespace butterfly::model::testing
