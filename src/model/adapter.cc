#include "model/adapter.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "kernels/quant/quant.h"

namespace butterfly::model {
namespace {

constexpr std::string_view kSuffixA = ".lora_a", kSuffixB = ".lora_b";

void expect_text(const ModelFile& file, const char* key, std::string_view expected) {
  const std::string found = file.metadata().string_or(key, "nothing");
  if (found != expected)
    fail(Errc::kInvalidArgument, "{}: key {}: expected '{}', found '{}'", file.path().string(), key, expected,
         found);
}

graph::Parameter parameter(const std::string& name, const Tensor& value) {
  return {.name = name, .value = value, .packed = kernels::PackedMatrix(value)};
}

}  // namespace

const LoraPair* Adapter::find(std::string_view target) const {
  const auto it = std::find_if(pairs.begin(), pairs.end(), [&](const auto& p) { return p.target == target; });
  return it == pairs.end() ? nullptr : &*it;
}

float Adapter::scale_of(const LoraPair& pair) const {
  if (alpha == 0) return scale;
  const auto rank = static_cast<float>(pair.a.size(0));
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

void LoraPairs::add(const std::string& target, bool is_a, const std::string& name, const Tensor& tensor) {
  if (tensor.rank() != 2 || tensor.count() == 0)
    fail(Errc::kCorrupt, "{}: tensor {}: expected a matrix, found shape {}", file_, name,
         tensor.shape().to_string());
  const DTypeInfo& type = dtype_info(tensor.dtype());
  if (!type.quantised() && type.dtype != DType::kF32 && type.dtype != DType::kF16 &&
      type.dtype != DType::kBF16)
    fail(Errc::kUnsupported, "{}: tensor {}: cannot read values of type {}", file_, name, type.name);
  Tensor floats = Tensor::zeros(DType::kF32, tensor.shape());
  MappedFile::guard([&] {
    kernels::to_float(type.dtype, tensor.raw(), floats.data<float>(), static_cast<size_t>(tensor.count()));
  });
  LoraPair& pair = pairs_[target];
  pair.target = target;
  (is_a ? pair.a : pair.b) = floats;
}

std::vector<LoraPair> LoraPairs::finish() && {
  std::vector<LoraPair> pairs;
  for (auto& [target, pair] : pairs_) {
    if (!pair.a || !pair.b)
      fail(Errc::kCorrupt, "{}: {}: only one of the two low-rank matrices is there", file_, target);
    if (pair.a.size(0) != pair.b.size(1))
      fail(Errc::kCorrupt, "{}: {}: ranks differ, A has shape {} and B {}", file_, target,
           pair.a.shape().to_string(), pair.b.shape().to_string());
    pairs.push_back(std::move(pair));
  }
  if (pairs.empty()) fail(Errc::kCorrupt, "{}: the adapter has no low-rank matrices", file_);
  return pairs;
}

Adapter open_adapter(const AdapterSpec& spec, const ModelFile& base) {
  if (std::filesystem::is_directory(spec.path)) return open_peft_adapter(spec, base);
  const ModelFile file = open_model(spec.path);
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

nn::LowRank low_rank(const Adapter& adapter, const LoraPair& pair, const ModelFile& file, const Shape& whole,
                     size_t begin, size_t out) {
  if (pair.b.size(0) != whole[0] || pair.a.size(1) != whole[1])
    fail(Errc::kInvalidArgument, "{}: {}: changes a matrix of shape [{}, {}], {} has {}",
         adapter.path.string(), pair.target, pair.b.size(0), pair.a.size(1), file.path().string(),
         whole.to_string());
  const Tensor rows = pair.b.slice(0, static_cast<int64_t>(begin), static_cast<int64_t>(begin + out));
  return {.a = parameter(pair.target + ".lora_a", pair.a),
          .b = parameter(pair.target + ".lora_b", rows),
          .scale = adapter.scale_of(pair)};
}

}  // namespace butterfly::model
