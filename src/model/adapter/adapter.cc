#include "model/adapter/adapter.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "kernels/quant/quant.h"
#include "model/formats/json_file.h"

namespace butterfly::model {
namespace {

constexpr std::string_view kSuffixA = ".lora_a", kSuffixB = ".lora_b";

void expect_text(const ModelFile& file, const char* key, std::string_view expected) {
  const std::string found = file.metadata().string_or(key, "nothing");
  if (found != expected)
    fail(Errc::kInvalidArgument, "{}: key {}: expected '{}', found '{}'", file.path().string(), key, expected,
         found);
}

Tensor transposed(const Tensor& from) {
  const int64_t rows = from.size(0), columns = from.size(1);
  Tensor to = Tensor::zeros(DType::kF32, {columns, rows});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      to.data<float>()[c * rows + r] = from.data<float>()[r * columns + c];
  return to;
}

graph::Parameter parameter(const Adapter& adapter, const std::string& name, const Tensor& value) {
  if (adapter.learns) return {.name = name, .value = value, .packed = {}, .trainable = true};
  return {.name = name, .value = value, .packed = kernels::PackedMatrix(value)};
}

}  // namespace

const LoraPair* Adapter::find(std::string_view target) const {
  const auto it = std::find_if(pairs.begin(), pairs.end(), [&](const auto& p) { return p.target == target; });
  return it == pairs.end() ? nullptr : &*it;
}

Shape LoraPair::changed() const {
  if (of_experts()) return {b.size(0), b.size(1), a.size(2)};
  if (target == kEmbeddingTensor) return {a.size(0), b.size(0)};
  return {b.size(0), a.size(1)};
}

float Adapter::scale_of(const LoraPair& pair) const {
  if (alpha == 0) return scale;
  const auto rank = static_cast<float>(pair.rank());
  return scale * alpha / (by_root ? std::sqrt(rank) : rank);
}

AdapterSpec parse_adapter_spec(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || std::filesystem::exists(text)) return {text, 1};
  float scale = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, scale);
  if (error != std::errc() || rest != end || !std::isfinite(scale)) return {text, 1};
  return {text.substr(0, colon), scale};
}

Tensor LoraPairs::floats(const std::string& name, const Tensor& tensor) const {
  const DTypeInfo& type = dtype_info(tensor.dtype());
  if (!type.quantised() && type.dtype != DType::kF32 && type.dtype != DType::kF16 &&
      type.dtype != DType::kBF16)
    fail(Errc::kUnsupported, "{}: tensor {}: cannot read values of type {}", file_, name, type.name);
  Tensor floats = Tensor::zeros(DType::kF32, tensor.shape());
  MappedFile::guard([&] {
    kernels::to_float(type.dtype, tensor.raw(), floats.data<float>(), static_cast<size_t>(tensor.count()));
  });
  return floats;
}

void LoraPairs::add(const std::string& target, bool is_a, const std::string& name, const Tensor& tensor,
                    bool transpose) {
  if (tensor.rank() < 2 || tensor.rank() > 3 || (transpose && tensor.rank() > 2) || tensor.count() == 0)
    fail(Errc::kCorrupt, "{}: tensor {}: expected a matrix, or those of experts, found shape {}", file_, name,
         tensor.shape().to_string());
  const Tensor values = floats(name, tensor);
  LoraPair& pair = pairs_[target];
  pair.target = target;
  (is_a ? pair.a : pair.b) = transpose ? transposed(values) : values;
}

void LoraPairs::add_expert(const std::string& target, const Shape& whole, size_t expert, bool is_a,
                           const std::string& name, const Tensor& tensor) {
  if (whole.rank() != 3 || expert >= static_cast<size_t>(whole[0]))
    fail(Errc::kInvalidArgument, "{}: tensor {}: is for expert {}, {} has shape {}", file_, name, expert,
         target, whole.to_string());
  // A rank beyond the matrix's would be memory for nothing, times the experts.
  const auto bad = [&](int64_t side, int64_t rank) {
    return tensor.size(is_a ? 1 : 0) != side || rank < 1 || rank > std::min(whole[1], whole[2]);
  };
  if (tensor.rank() != 2 || bad(is_a ? whole[2] : whole[1], tensor.size(is_a ? 0 : 1)))
    fail(Errc::kInvalidArgument,
         "{}: tensor {}: has shape {}, which is no part of what experts of shape {} take", file_, name,
         tensor.shape().to_string(), whole.to_string());
  LoraPair& pair = pairs_[target];
  pair.target = target;
  Tensor& all = is_a ? pair.a : pair.b;
  if (!all) all = Tensor::zeros(DType::kF32, {whole[0], tensor.size(0), tensor.size(1)});
  if (all.rank() != 3 || all.size(1) != tensor.size(0) || all.size(2) != tensor.size(1))
    fail(Errc::kUnsupported, "{}: tensor {}: has shape {}, another expert's has {}", file_, name,
         tensor.shape().to_string(), all.shape().to_string());
  const Tensor values = floats(name, tensor);
  std::copy_n(values.data<float>(), values.count(),
              all.data<float>() + static_cast<int64_t>(expert) * values.count());
}

std::vector<LoraPair> LoraPairs::finish() && {
  std::vector<LoraPair> pairs;
  for (auto& [target, pair] : pairs_) {
    if (!pair.a || !pair.b)
      fail(Errc::kCorrupt, "{}: {}: only one of the two low-rank matrices is there", file_, target);
    const bool fits = pair.a.rank() == pair.b.rank() &&
                      (pair.of_experts() ? pair.a.size(0) == pair.b.size(0) && pair.a.size(1) == pair.rank()
                                         : pair.a.size(target == kEmbeddingTensor ? 1 : 0) == pair.rank());
    if (!fits)
      fail(Errc::kCorrupt, "{}: {}: ranks differ, A has shape {} and B {}", file_, target,
           pair.a.shape().to_string(), pair.b.shape().to_string());
    pairs.push_back(std::move(pair));
  }
  if (pairs.empty()) fail(Errc::kCorrupt, "{}: the adapter has no low-rank matrices", file_);
  return pairs;
}

Adapter open_adapter(const AdapterSpec& spec, const ModelFile& base) {
  if (!std::filesystem::is_directory(spec.path)) return read_gguf_adapter(spec, open_model(spec.path), base);
  return read_peft_adapter(spec, read_text_file(spec.path / kPeftConfig),
                           SafetensorsFile::open(spec.path / kPeftWeights), base);
}

Adapter read_gguf_adapter(const AdapterSpec& spec, const ModelFile& file, const ModelFile& base) {
  const std::string name = spec.path.string();
  expect_text(file, "general.type", "adapter");
  expect_text(file, "adapter.type", "lora");
  if (file.architecture() != base.architecture())
    fail(Errc::kInvalidArgument, "{}: is for architecture '{}', {} is '{}'", name, file.architecture(),
         base.path().string(), base.architecture());
  LoraPairs pairs(name);
  for (const NamedTensor& named : file.tensors()) {
    const std::string_view tensor = named.name;
    const bool is_a = tensor.ends_with(kSuffixA);
    if (!is_a && !tensor.ends_with(kSuffixB))
      fail(Errc::kUnsupported, "{}: tensor {}: expected a name that ends in {} or {}", name, named.name,
           kSuffixA, kSuffixB);
    pairs.add(std::string(tensor.substr(0, tensor.size() - kSuffixA.size())), is_a, named.name,
              file.tensor(named.name));
  }
  return {.path = spec.path,
          .alpha = file.metadata().f32_or("adapter.lora.alpha", 0),
          .scale = spec.scale,
          .pairs = std::move(pairs).finish()};
}

namespace {

void check_shape(const Adapter& adapter, const LoraPair& pair, const ModelFile& file, const Shape& whole) {
  if (const Shape changed = pair.changed(); changed != whole)
    fail(Errc::kInvalidArgument, "{}: {}: changes a matrix of shape {}, {} has {}", adapter.path.string(),
         pair.target, changed.to_string(), file.path().string(), whole.to_string());
}

}  // namespace

nn::LowRank low_rank_rows(const Adapter& adapter, const LoraPair& pair, const ModelFile& file,
                          const Shape& whole) {
  check_shape(adapter, pair, file, whole);
  return {.a = {.name = pair.target + ".lora_a", .value = pair.a, .packed = {}},
          .b = parameter(adapter, pair.target + ".lora_b", pair.b),
          .scale = adapter.scale_of(pair)};
}

nn::LowRank low_rank(const Adapter& adapter, const LoraPair& pair, const ModelFile& file, const Shape& whole,
                     const std::function<Tensor(const Tensor&)>& rows) {
  check_shape(adapter, pair, file, whole);
  return {.a = parameter(adapter, pair.target + ".lora_a", pair.a),
          .b = parameter(adapter, pair.target + ".lora_b", rows(pair.b)),
          .scale = adapter.scale_of(pair)};
}

nn::ExpertLowRank low_rank_experts(const Adapter& adapter, const LoraPair& pair, const ModelFile& file,
                                   const Shape& whole, size_t begin, size_t end) {
  check_shape(adapter, pair, file, whole);
  const auto plain = [&](const char* suffix, const Tensor& all) {
    return graph::Parameter{.name = pair.target + suffix,
                            .value = all.slice(0, static_cast<int64_t>(begin), static_cast<int64_t>(end)),
                            .packed = {},
                            .trainable = adapter.learns};
  };
  return {.a = plain(".lora_a", pair.a), .b = plain(".lora_b", pair.b), .scale = adapter.scale_of(pair)};
}

nn::LowRank low_rank_columns(const Adapter& adapter, const LoraPair& pair, const ModelFile& file,
                             const Shape& whole, size_t begin, size_t end) {
  check_shape(adapter, pair, file, whole);
  nn::LowRank layer{.a = {.name = pair.target + ".lora_a", .value = {}, .packed = {}},
                    .b = parameter(adapter, pair.target + ".lora_b", pair.b),
                    .scale = adapter.scale_of(pair)};
  if (begin < end)
    layer.a = parameter(adapter, layer.a.name,
                        pair.a.slice(1, static_cast<int64_t>(begin), static_cast<int64_t>(end)).clone());
  return layer;
}

}  // namespace butterfly::model
