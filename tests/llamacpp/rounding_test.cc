// Where the two programs differ on quantised models, is that rounding or a mistake? Both are compared with
// the same model in F32: the weights dequantised, so that nothing but the weights' own error is left.
#include <fmt/format.h>

#include "compare.h"
#include "model/formats/convert.h"
#include "model/formats/gguf_writer.h"
#include "runtime/testing/models.h"

namespace butterfly::testing {
namespace {

namespace fs = std::filesystem;
using runtime::testing::small_options;
using runtime::testing::some_tokens;

constexpr size_t kPositions = 64, kContext = 128;

// The model with the weights behind its blocks' norms multiplied: what blocks add outweighs the embedding,
// and what they round with it.
void strengthen_post_norms(const fs::path& from, const fs::path& to, float factor) {
  const model::ModelFile file = model::open_model(from);
  model::GgufWriter writer(file.metadata());
  for (const model::NamedTensor& entry : file.tensors()) {
    Tensor tensor = file.tensor(entry.name);
    if (entry.name.find("post_") != std::string::npos) {
      Tensor stronger = Tensor::zeros(DType::kF32, tensor.shape());
      for (int64_t i = 0; i < tensor.count(); ++i)
        stronger.data<float>()[i] = factor * tensor.data<float>()[i];
      tensor = stronger;
    }
    writer.add_tensor(entry.name, tensor);
  }
  writer.write(to);
}

class LlamaCppRounding : public LlamaCppFiles, public ::testing::WithParamInterface<DType> {};

TEST_P(LlamaCppRounding, WeAreNoFurtherFromFloatArithmetic) {
  const auto tokens = some_tokens(kPositions, 320);
  ThreadPool pool(2);
  double ours = 0, theirs = 0, apart = 0;
  constexpr int kSeeds = 4;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    model::RandomModelOptions options = small_options("gemma3", GetParam());
    options.seed = static_cast<uint64_t>(seed);
    model::write_random_model(dir_ / "plain.gguf", options);
    strengthen_post_norms(dir_ / "plain.gguf", dir_ / "strong.gguf", 1.5f);
    model::convert_model(model::open_model(dir_ / "strong.gguf"), dir_ / "floats.gguf",
                         {.type = model::file_type_by_name("F32"), .allow_requantize = true}, pool);
    const auto by_llama_cpp =
        oracle_logits({{.model = dir_ / "strong.gguf", .tokens = tokens, .context = kContext},
                       {.model = dir_ / "floats.gguf", .tokens = tokens, .context = kContext}});
    const auto own = our_logits(dir_ / "strong.gguf", tokens, kContext);
    const auto floats = our_logits(dir_ / "floats.gguf", tokens, kContext);
    const size_t vocab = own.size() / kPositions;
    EXPECT_LE(compare(by_llama_cpp[1], floats, vocab, 0).mean_kl, 1e-6);  // in floats they agree
    const double to_ours = compare(floats, own, vocab, 0).mean_kl;
    const double to_theirs = compare(floats, by_llama_cpp[0], vocab, 0).mean_kl;
    const double between = compare(by_llama_cpp[0], own, vocab, 0).mean_kl;
    fmt::print(
        "gemma3 {} seed {}: KL from float arithmetic, ours {:.2e}, llama.cpp's {:.2e}; between them {:.2e}\n",
        dtype_name(GetParam()), seed, to_ours, to_theirs, between);
    ours += to_ours / kSeeds;
    theirs += to_theirs / kSeeds;
    apart += between / kSeeds;
  }
  EXPECT_LE(ours, 1.1 * theirs);
  EXPECT_LE(apart, 2 * (ours + theirs));  // two independent roundings
}

INSTANTIATE_TEST_SUITE_P(Types, LlamaCppRounding,
                         ::testing::Values(DType::kQ8_0, DType::kQ4_0, DType::kQ4_K, DType::kQ6_K),
                         [](const auto& test) { return std::string(dtype_name(test.param)); });

}  // namespace
}  // namespace butterfly::testing
