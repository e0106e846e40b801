// Adapters that change the ends of a model, embedding and output: as if their products were merged into it.
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "base/testing/temp_dir.h"
#include "model/formats/gguf_writer.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

using butterfly::testing::TempDir;
using testing::small_options;
using testing::some_tokens;

constexpr int64_t kRank = 3, kVocab = 320, kDim = 256;

Tensor random_matrix(int64_t rows, int64_t columns, uint64_t stream) {
  Tensor tensor = Tensor::zeros(DType::kF32, {rows, columns});
  for (int64_t i = 0; i < tensor.count(); ++i)
    tensor.data<float>()[i] = 0.1f * random_normal(5, stream, static_cast<uint64_t>(i));
  return tensor;
}

// a[i] . b[j] for every i, j
Tensor products(const Tensor& a, const Tensor& b) {
  Tensor result = Tensor::zeros(DType::kF32, {a.size(0), b.size(0)});
  for (int64_t i = 0; i < a.size(0); ++i)
    for (int64_t j = 0; j < b.size(0); ++j)
      for (int64_t r = 0; r < a.size(1); ++r)
        result.data<float>()[i * b.size(0) + j] +=
            a.data<float>()[i * a.size(1) + r] * b.data<float>()[j * b.size(1) + r];
  return result;
}

struct Ends {
  Tensor embedding_a = random_matrix(kVocab, kRank, 1), embedding_b = random_matrix(kDim, kRank, 2);
  Tensor output_a = random_matrix(kRank, kDim, 3), output_b = random_matrix(kVocab, kRank, 4);
};

void write_adapter(const std::filesystem::path& path, const Ends& ends) {
  model::Metadata metadata;
  metadata.set("general.architecture", std::string("llama"));
  metadata.set("general.type", std::string("adapter"));
  metadata.set("adapter.type", std::string("lora"));
  metadata.set("adapter.lora.alpha", 6.0f);  // twice the rank: scale 2
  model::GgufWriter writer(metadata);
  writer.add_tensor("token_embd.weight.lora_a", ends.embedding_a);
  writer.add_tensor("token_embd.weight.lora_b", ends.embedding_b);
  writer.add_tensor("output.weight.lora_a", ends.output_a);
  writer.add_tensor("output.weight.lora_b", ends.output_b);
  writer.write(path);
}

// The model with twice the products added, and with an output of its own.
void write_merged(const std::filesystem::path& from, const std::filesystem::path& to, const Ends& ends) {
  const model::ModelFile file = model::open_model(from);
  const auto plus = [](const Tensor& base, const Tensor& delta) {
    Tensor sum = Tensor::zeros(DType::kF32, base.shape());
    for (int64_t i = 0; i < base.count(); ++i)
      sum.data<float>()[i] = base.data<float>()[i] + 2 * delta.data<float>()[i];
    return sum;
  };
  Tensor columns = Tensor::zeros(DType::kF32, {kDim, kRank});  // output_a, a row per column of the model's
  for (int64_t d = 0; d < kDim; ++d)
    for (int64_t r = 0; r < kRank; ++r)
      columns.data<float>()[d * kRank + r] = ends.output_a.data<float>()[r * kDim + d];
  const Tensor embedding = file.tensor("token_embd.weight");
  const Tensor output = file.has("output.weight") ? file.tensor("output.weight") : embedding;
  model::GgufWriter writer(file.metadata());
  for (const model::NamedTensor& entry : file.tensors())
    if (entry.name != "token_embd.weight" && entry.name != "output.weight")
      writer.add_tensor(entry.name, file.tensor(entry.name));
  writer.add_tensor("token_embd.weight", plus(embedding, products(ends.embedding_a, ends.embedding_b)));
  writer.add_tensor("output.weight", plus(output, products(ends.output_b, columns)));
  writer.write(to);
}

std::vector<float> logits_of(const std::filesystem::path& path, std::vector<model::AdapterSpec> adapters) {
  ThreadPool pool(2);
  LoadOptions options;
  options.with_tokenizer = false;
  options.adapters = std::move(adapters);
  const auto model = load_model(path, pool, options);
  CachedLayers layers(*model, pool,
                      {.positions = 0, .sequences = 1, .kv_type = DType::kF32, .rows_max = 512});
  std::vector<BatchRow> rows;
  for (int32_t token : some_tokens(20, kVocab))
    rows.push_back({token, 0, static_cast<uint32_t>(rows.size()), true});
  const auto logits = layers.run(rows);
  return {logits.begin(), logits.end()};
}

TEST(AdapterEnds, EqualMergedWeights) {
  for (const bool tied : {false, true}) {
    TempDir dir;
    model::RandomModelOptions options = small_options("llama", DType::kF32);
    options.tied = tied;
    model::write_random_model(dir / "base.gguf", options);
    const Ends ends;
    write_adapter(dir / "adapter.gguf", ends);
    write_merged(dir / "base.gguf", dir / "merged.gguf", ends);
    const auto plain = logits_of(dir / "base.gguf", {});
    const auto adapted = logits_of(dir / "base.gguf", {{dir / "adapter.gguf", 1}});
    const auto merged = logits_of(dir / "merged.gguf", {});
    double worst = 0, changed = 0;
    for (size_t i = 0; i < merged.size(); ++i) {
      worst = std::max(worst, std::abs(double{adapted[i]} - merged[i]));
      changed = std::max(changed, std::abs(double{adapted[i]} - plain[i]));
    }
    EXPECT_LT(worst, 1e-4) << tied;
    EXPECT_GT(changed, 0.1) << tied;
  }
}

}  // namespace
}  // namespace butterfly::runtime
