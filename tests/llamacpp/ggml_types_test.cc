// Every quantised type against ggml's own library: its floats of arbitrary bytes, bit for bit, and whole
// models whose matrices it has quantised.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/rng.h"
#include "compare.h"
#include "kernels/quant/quant.h"
#include "kernels/quant/tame_scale.h"
#include "model/formats/file_type.h"
#include "model/formats/gguf_writer.h"
#include "runtime/testing/models.h"

namespace butterfly::testing {
namespace {

using kernels::QuantType;
using runtime::testing::small_options;
using runtime::testing::some_tokens;

class GgmlTypes : public LlamaCppFiles, public ::testing::WithParamInterface<QuantType> {
 protected:
  void SetUp() override {
    LlamaCppFiles::SetUp();
    if (IsSkipped()) return;
    library_ = dlopen(oracle_library("libggml-base.so").c_str(), RTLD_NOW);
    ASSERT_NE(library_, nullptr) << dlerror();
  }
  template <typename F>
  F* function(const std::string& name) const {
    auto* found = reinterpret_cast<F*>(dlsym(library_, name.c_str()));
    if (found == nullptr) throw std::runtime_error("ggml has no " + name);
    return found;
  }

 private:
  void* library_ = nullptr;  // stays loaded
};

// "dequantize_row_q4_K", "dequantize_row_iq2_xxs"
std::string dequantize_name(DType dtype) {
  std::string name(dtype_name(dtype));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name.ends_with("_k")) name.back() = 'K';
  return "dequantize_row_" + name;
}

TEST_P(GgmlTypes, ArbitraryBytesGiveTheSameFloatBits) {
  const QuantType& type = GetParam();
  const DTypeInfo& info = dtype_info(type.dtype);
  auto* theirs = function<void(const void*, float*, int64_t)>(dequantize_name(type.dtype));
  constexpr size_t kBlocks = 2000;
  std::vector<std::byte> bytes(kBlocks * info.block_bytes);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(random_u64(1, 2, i));
  for (size_t b = 0; b < kBlocks; ++b) kernels::tame_scale(type.dtype, bytes.data() + b * info.block_bytes);
  std::vector<float> want(kBlocks * info.block_values), got(want.size());
  theirs(bytes.data(), want.data(), static_cast<int64_t>(want.size()));
  type.dequantize(bytes.data(), got.data(), got.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (type.has_min && std::isnan(want[i]) && std::isnan(got[i]))
      continue;  // a second f16 of arbitrary bytes
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
        << "block " << i / info.block_values << " value " << i % info.block_values << ": " << got[i]
        << " against " << want[i];
  }
}

TEST_P(GgmlTypes, ModelsThatGgmlQuantisedAgree) {
  const DType dtype = GetParam().dtype;
  auto* quantize = function<size_t(int, const float*, void*, int64_t, int64_t, int64_t, const float*)>(
      "ggml_quantize_chunk");
  model::RandomModelOptions options = small_options("llama", DType::kF32);
  model::write_random_model(dir_ / "f32.gguf", options);
  const model::ModelFile file = model::open_model(dir_ / "f32.gguf");
  model::GgufWriter writer(file.metadata());
  size_t quantised = 0;
  for (const model::NamedTensor& entry : file.tensors()) {
    const Tensor tensor = file.tensor(entry.name);
    const int64_t cols = entry.shape.back();
    const bool is_matrix = entry.name.starts_with("blk.") && entry.shape.rank() == 2;
    if (!is_matrix || cols % dtype_info(dtype).block_values != 0) {
      writer.add_tensor(entry.name, tensor);
      continue;
    }
    Tensor to = Tensor::zeros(dtype, entry.shape);
    const std::vector<float> importance(static_cast<size_t>(cols), 1.0f);
    quantize(dtype_info(dtype).gguf_id, tensor.data<float>(), to.raw(), 0, entry.shape[0], cols,
             importance.data());
    writer.add_tensor(entry.name, to);
    ++quantised;
  }
  ASSERT_GT(quantised, 10u);
  writer.write(dir_ / "model.gguf");
  constexpr size_t kPositions = 64, kContext = 128;
  const auto tokens = some_tokens(kPositions, 320);
  const auto theirs = oracle_logits({{.model = dir_ / "model.gguf", .tokens = tokens, .context = kContext}});
  expect_agreement(fmt::format("llama by ggml {:<7}", dtype_name(dtype)), dtype, theirs[0],
                   our_logits(dir_ / "model.gguf", tokens, kContext), kPositions);
}

std::vector<QuantType> types() { return {kernels::quant_table().begin(), kernels::quant_table().end()}; }

INSTANTIATE_TEST_SUITE_P(Types, GgmlTypes, ::testing::ValuesIn(types()),
                         [](const auto& test) { return std::string(dtype_name(test.param.dtype)); });

}  // namespace
}  // namespace butterfly::testing
