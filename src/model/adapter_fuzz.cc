// libFuzzer target: any bytes as an adapter, a GGUF file or what PEFT writes: a config and a safetensors
// file, separated by a zero byte. Allowed outcomes are an adapter that fits its model and an Error.
//
//   cmake --preset fuzz && cmake --build build/fuzz --target adapter_fuzz
//   build/fuzz/bin/adapter_fuzz -runs=1000000 -max_len=4096 corpus-folder src/model/adapter_fuzz_corpus
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "model/adapter.h"
#include "model/formats/fuzz_parts.h"
#include "model/formats/gguf.h"

namespace {

using namespace butterfly;
using namespace butterfly::model;

// A llama of one block without values: only names and shapes are asked for.
ModelFile base_model() {
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

void use(const Adapter& adapter, const ModelFile& base) {
  for (const LoraPair& pair : adapter.pairs) {
    const NamedTensor* target = base.find(pair.target);
    if (target == nullptr) continue;
    if (pair.target == kEmbeddingTensor) {
      const nn::LowRank rows = low_rank_rows(adapter, pair, base, target->shape);
      if (rows.a.value.size(1) != rows.b.value.size(1)) std::abort();
      continue;
    }
    const auto rows = static_cast<size_t>(target->shape[0]);
    const nn::LowRank half = low_rank(adapter, pair, base, target->shape, rows / 2, rows - rows / 2);
    if (half.b.value.size(0) != target->shape[0] / 2) std::abort();
  }
}

ModelFile gguf_of(std::span<const std::byte> bytes) {
  const GgufFile file = GgufFile::parse(bytes, "fuzz.gguf");
  std::vector<NamedTensor> tensors;
  for (const GgufTensor& info : file.tensors())
    tensors.emplace_back(info.name, file.tensor(info), info.offset);
  return ModelFile("gguf", "fuzz.gguf", file.metadata(), std::move(tensors), {});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ModelFile base = base_model();
  const bool gguf = is_gguf(std::as_bytes(std::span(data, size)));
  const FuzzParts parts(data, size, !gguf);
  try {
    const AdapterSpec spec{"fuzz", 0.5f};
    if (gguf) {
      use(read_gguf_adapter(spec, gguf_of(parts.file()), base), base);
    } else {
      use(read_peft_adapter(spec, parts.text(), SafetensorsFile::parse(parts.file(), "fuzz.safetensors"),
                            base),
          base);
    }
  } catch (const Error&) {
  }
  return 0;
}
