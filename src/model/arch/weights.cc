#include "model/arch/weights.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/quant/quant.h"

namespace butterfly::model {
namespace {

// Without the empty ones, and neighbours as one.
std::vector<MemberRange> joined(std::span<const MemberRange> ranges) {
  std::vector<MemberRange> all;
  for (const MemberRange& range : ranges) {
    if (range.empty()) continue;
    if (!all.empty() && all.back().end == range.begin)
      all.back().end = range.end;
    else
      all.push_back(range);
  }
  return all;
}

size_t count_of(std::span<const MemberRange> ranges) {
  size_t count = 0;
  for (const MemberRange& range : ranges) count += range.count();
  return count;
}

}  // namespace

WeightLoader::WeightLoader(const ModelFile& file, ThreadPool& pool, LoadProgress progress,
                           std::span<const Adapter> adapters)
    : file_(file),
      adapters_(adapters),
      pool_(pool),
      progress_(std::move(progress)),
      total_bytes_(file.tensor_bytes()) {}

void WeightLoader::expect_only(const Needs& needs) {
  total_bytes_ = 0;
  for (const NamedTensor& tensor : file_.tensors())
    if (needs(tensor.name)) total_bytes_ += tensor.bytes;
}

size_t WeightLoader::site(AdapterSite::Kind kind, const std::string& target, const Shape& whole,
                          std::vector<MemberRange> rows) {
  if (sites_ == nullptr) return nn::kNoSite;
  sites_->push_back({kind, target, whole, std::move(rows)});
  return sites_->size() - 1;
}

void WeightLoader::loaded(const Tensor& tensor) {
  done_bytes_ += tensor.bytes();
  if (progress_) progress_(std::min(done_bytes_, total_bytes_), total_bytes_);
}

Tensor WeightLoader::tensor(const std::string& name, const Shape& shape) {
  if (!training_) return file_.tensor(name, shape);
  const auto found = masters_.find(name);
  if (found != masters_.end()) return found->second;
  const Tensor stored = file_.tensor(name, shape);
  Tensor master = stored;
  if (stored.dtype() != DType::kF32 || !stored.buffer().writable()) {
    master = Tensor::zeros(DType::kF32, stored.shape());
    MappedFile::guard([&] {
      kernels::to_float(stored.dtype(), stored.raw(), master.data<float>(),
                        static_cast<size_t>(stored.count()));
    });
  }
  masters_.emplace(name, master);
  resident_bytes_ += master.bytes();
  loaded(stored);
  return master;
}

kernels::PackedMatrix WeightLoader::pack(const Tensor& matrix, const std::string& name, size_t begin) {
  if (!with_values_) return sizes_only(matrix);
  if (!shared_) return pack_anew(matrix);
  const auto [found, is_new] = shared_->try_emplace(fmt::format("{}:{}+{}", name, begin, matrix.size(0)));
  if (!is_new) {
    const kernels::PackedMatrix& there = found->second;
    const auto rows = static_cast<size_t>(matrix.size(0)), cols = static_cast<size_t>(matrix.size(1));
    if (there.dtype() != matrix.dtype() || there.rows() != rows || there.cols() != cols)
      fail(Errc::kCorrupt,
           "{}: tensor {}: found {} [{}, {}], a model that is loaded from this file has {} [{}, {}]",
           file_.path().string(), name, dtype_name(matrix.dtype()), rows, cols, dtype_name(there.dtype()),
           there.rows(), there.cols());
    resident_bytes_ += there.bytes();
    loaded(matrix);
    return there;
  }
  try {
    return found->second = pack_anew(matrix);
  } catch (...) {
    shared_->erase(found);
    throw;
  }
}

kernels::PackedMatrix WeightLoader::sizes_only(const Tensor& matrix) {
  auto packed = kernels::PackedMatrix::sizes_only(matrix.dtype(), static_cast<size_t>(matrix.size(0)),
                                                  static_cast<size_t>(matrix.size(1)));
  resident_bytes_ += packed.bytes();
  loaded(matrix);
  return packed;
}

kernels::PackedMatrix WeightLoader::pack_anew(const Tensor& matrix) {
  auto packed = kernels::PackedMatrix::uninitialised(matrix);
  resident_bytes_ += packed.bytes();
  pool_.parallel_for(packed.panels(), 1, [&](size_t begin, size_t end) {
    MappedFile::guard([&] { packed.pack_panels(matrix, begin, end); });
  });
  if (packed.repacked()) {
    packed_bytes_ += packed.bytes();
    file_.done_with(matrix);
  }
  loaded(matrix);
  return packed;
}

graph::Parameter WeightLoader::matrix(const std::string& name, size_t out, size_t in) {
  const Tensor values = tensor(name, {static_cast<int64_t>(out), static_cast<int64_t>(in)});
  if (training_) return {.name = name, .value = values, .trainable = true};
  return {.name = name, .value = {}, .packed = pack(values, name, 0)};
}

nn::Linear WeightLoader::linear_rows(const std::string& stem, const Tensor& whole,
                                     std::span<const MemberRange> ranges, const std::string& adapted) {
  const std::string name = stem + ".weight";
  const std::vector<MemberRange> rows = joined(ranges);
  const float scale = scale_of(stem);
  adaptable_.insert(adapted);
  if (rows.empty()) {  // another member's
    for (const Adapter& adapter : adapters_)
      if (adapter.find(adapted) != nullptr) adapted_.insert(adapted);
    return {};
  }
  const Tensor part = tensor_rows(whole, rows, with_values_);
  std::string packed_name = name;
  for (size_t i = 1; i < rows.size(); ++i) packed_name += fmt::format(":{}-{}", rows[i].begin, rows[i].end);
  nn::Linear linear;
  linear.scale = scale;
  linear.weight =
      training_
          ? graph::Parameter{.name = name, .value = part, .trainable = true}
          : graph::Parameter{.name = name, .value = {}, .packed = pack(part, packed_name, rows[0].begin)};
  if (rows.size() > 1) file_.done_with(whole);
  linear.site = site(AdapterSite::Kind::kMatrix, adapted, whole.shape(), rows);
  if (const graph::Parameter bias = optional_vector(stem + ".bias", static_cast<size_t>(whole.size(0))))
    linear.bias = {.name = bias.name, .value = tensor_rows(bias.value, rows), .trainable = training_};
  for (const Adapter& adapter : adapters_)
    if (const LoraPair* pair = adapter.find(adapted)) {
      adapted_.insert(adapted);
      // Rows that do not stand together would be a copy, which is not what learns.
      const bool picks = adapter.learns && rows.size() > 1;
      linear.adapters.push_back(low_rank(adapter, *pair, file_, whole.shape(), [&](const Tensor& of) {
        return picks ? of : tensor_rows(of, rows);
      }));
      if (picks) linear.adapters.back().columns = rows;
    }
  return linear;
}

nn::Linear WeightLoader::gathered_linear(const std::string& stem, size_t out, size_t in,
                                         std::span<const MemberRange> ranges) {
  const Tensor whole = tensor(stem + ".weight", {static_cast<int64_t>(out), static_cast<int64_t>(in)});
  return linear_rows(stem, whole, ranges, stem + ".weight");
}

nn::Linear WeightLoader::head(size_t vocab, size_t dim, MemberRange here) {
  const std::string stem = has("output.weight") ? "output" : "token_embd";
  const Tensor whole = tensor(stem + ".weight", {static_cast<int64_t>(vocab), static_cast<int64_t>(dim)});
  return linear_rows(stem, whole, here, "output.weight");
}

nn::Linear WeightLoader::linear(const std::string& stem, size_t out, size_t in) {
  return fused_linear(stem, {{out, {0, out}}}, in)[0];
}

nn::Linear WeightLoader::linear_columns(const std::string& stem, size_t out, size_t in, MemberRange here) {
  const std::string name = stem + ".weight";
  const Tensor whole = tensor(name, {static_cast<int64_t>(out), static_cast<int64_t>(in)});
  nn::Linear linear;
  linear.weight.name = name;
  linear.scale = scale_of(stem);
  adaptable_.insert(name);
  if (!here.empty()) {
    const Tensor part = whole.slice(1, static_cast<int64_t>(here.begin), static_cast<int64_t>(here.end));
    Tensor copy = part;
    if (with_values_) MappedFile::guard([&] { copy = part.clone(); });
    linear.weight.packed = pack(copy, fmt::format("{}:columns {}-{}", name, here.begin, here.end), 0);
    file_.done_with(whole);
  }
  linear.bias = optional_vector(stem + ".bias", out);
  for (const Adapter& adapter : adapters_)
    if (const LoraPair* pair = adapter.find(name)) {
      adapted_.insert(name);
      linear.adapters.push_back(low_rank_columns(adapter, *pair, file_, whole.shape(), here.begin, here.end));
    }
  return linear;
}

std::vector<nn::Linear> WeightLoader::fused_linear(const std::string& stem, std::span<const FusedPart> parts,
                                                   size_t in) {
  size_t total = 0;
  for (const FusedPart& part : parts) total += part.out;
  const Tensor whole = tensor(stem + ".weight", {static_cast<int64_t>(total), static_cast<int64_t>(in)});
  std::vector<nn::Linear> layers;
  size_t begin = 0;
  for (const FusedPart& part : parts) {
    layers.push_back(
        linear_rows(stem, whole, {begin + part.here.begin, begin + part.here.end}, stem + ".weight"));
    begin += part.out;
  }
  return layers;
}

graph::ExpertParameter WeightLoader::stacked(const std::string& name, size_t count, size_t out, size_t in,
                                             MemberRange here) {
  const auto rows = static_cast<int64_t>(out), cols = static_cast<int64_t>(in);
  graph::ExpertParameter parameter{.name = name, .experts = {}, .first = here.begin};
  const Tensor all = file_.tensor(name, {static_cast<int64_t>(count), rows, cols});
  for (size_t e = here.begin; e < here.end; ++e) {
    const auto index = static_cast<int64_t>(e);
    if (!with_values_ && e > here.begin) {  // as large as the first, and as empty
      resident_bytes_ += parameter.experts[0].bytes();
      parameter.experts.push_back(parameter.experts[0]);
      continue;
    }
    parameter.experts.push_back(pack(all.slice(0, index, index + 1).reshape({rows, cols}), name, e * out));
  }
  return parameter;
}

void WeightLoader::refuse_training(std::string_view what) const {
  if (training_)
    fail(Errc::kUnsupported, "{}: {} do not learn themselves; adapter: lora trains an adapter beside them",
         file_.path().string(), what);
}

size_t WeightLoader::expert_site(const std::string& name, size_t experts, size_t out, size_t in) {
  return site(AdapterSite::Kind::kExperts, name,
              {static_cast<int64_t>(experts), static_cast<int64_t>(out), static_cast<int64_t>(in)}, {});
}

size_t WeightLoader::embedding_site(size_t vocab, size_t dim) {
  return site(AdapterSite::Kind::kEmbedding, std::string(kEmbeddingTensor),
              {static_cast<int64_t>(vocab), static_cast<int64_t>(dim)}, {});
}

std::vector<nn::ExpertLowRank> WeightLoader::expert_adapters(const std::string& name, size_t experts,
                                                             size_t out, size_t in, MemberRange here) {
  const Shape whole{static_cast<int64_t>(experts), static_cast<int64_t>(out), static_cast<int64_t>(in)};
  std::vector<nn::ExpertLowRank> found;
  adaptable_.insert(name);
  for (const Adapter& adapter : adapters_)
    if (const LoraPair* pair = adapter.find(name)) {
      adapted_.insert(name);
      found.push_back(low_rank_experts(adapter, *pair, file_, whole, here.begin, here.end));
    }
  return found;
}

graph::ExpertParameter WeightLoader::experts(const std::string& stem, size_t experts, size_t out, size_t in,
                                             MemberRange here) {
  refuse_training("experts");
  const std::string stacked = stem + "_exps.weight";
  const auto rows = static_cast<int64_t>(out);
  graph::ExpertParameter parameter{.name = stacked, .experts = {}, .first = here.begin};
  if (!has(stacked) && has(fmt::format("{}.0.weight", stem))) {
    for (size_t e = here.begin; e < here.end; ++e)
      parameter.experts.push_back(matrix(fmt::format("{}.{}.weight", stem, e), out, in).packed);
  } else {
    parameter = this->stacked(stacked, experts, out, in, here);
  }
  for (const kernels::PackedMatrix& packed : parameter.experts)
    if (packed.dtype() != parameter.experts[0].dtype())
      fail(Errc::kUnsupported, "{}: experts of {} have types {} and {}, expected one type",
           file_.path().string(), stem, dtype_name(parameter.experts[0].dtype()), dtype_name(packed.dtype()));
  if (const std::string bias = stem + "_exps.bias"; has(bias) && here.count() > 0)
    parameter.bias = floats(bias, {static_cast<int64_t>(experts), rows})
                         .value.slice(0, static_cast<int64_t>(here.begin), static_cast<int64_t>(here.end));
  return parameter;
}

std::pair<graph::ExpertParameter, graph::ExpertParameter> WeightLoader::fused_experts(const std::string& name,
                                                                                      size_t experts,
                                                                                      size_t out, size_t in,
                                                                                      MemberRange here) {
  refuse_training("experts");
  const auto rows = static_cast<int64_t>(out), cols = static_cast<int64_t>(in);
  const Tensor all = file_.tensor(name, {static_cast<int64_t>(experts), 2 * rows, cols});
  graph::ExpertParameter halves[] = {{.name = name + ".gate", .experts = {}, .first = here.begin},
                                     {.name = name + ".up", .experts = {}, .first = here.begin}};
  for (size_t e = here.begin; e < here.end; ++e)
    for (size_t half = 0; half < 2; ++half) {
      graph::ExpertParameter& to = halves[half];
      if (!with_values_ && e > here.begin) {  // as large as the first, and as empty
        resident_bytes_ += to.experts[0].bytes();
        to.experts.push_back(to.experts[0]);
        continue;
      }
      const auto index = static_cast<int64_t>(e), first = static_cast<int64_t>(half) * rows;
      const Tensor expert = all.slice(0, index, index + 1).reshape({2 * rows, cols});
      to.experts.push_back(pack(expert.slice(0, first, first + rows), name, (2 * e + half) * out));
    }
  return {std::move(halves[0]), std::move(halves[1])};
}

nn::Linear WeightLoader::linear_row(const std::string& stem, size_t in) {
  const auto cols = static_cast<int64_t>(in);
  const Tensor row = tensor(stem + ".weight", {cols}).reshape({1, cols});
  return linear_rows(stem, row, {0, 1}, stem + ".weight");
}

graph::Parameter WeightLoader::transposed(const std::string& name, size_t rows, size_t cols,
                                          std::span<const MemberRange> ranges) {
  const Tensor values = file_.tensor(name, {static_cast<int64_t>(rows), static_cast<int64_t>(cols)});
  const DType dtype = values.dtype();
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16)
    fail(Errc::kUnsupported, "{}: tensor {}: expected type F32, F16 or BF16, found {}", file_.path().string(),
         name, dtype_name(dtype));
  const std::vector<MemberRange> here = joined(ranges);
  const size_t count = count_of(here);
  if (count == 0) return {};
  Tensor turned = Tensor::zeros(DType::kF32, {static_cast<int64_t>(cols), static_cast<int64_t>(count)});
  if (with_values_) {
    const Tensor part = tensor_rows(values, here);
    std::vector<float> floats(count * cols);
    MappedFile::guard([&] { kernels::to_float(dtype, part.raw(), floats.data(), count * cols); });
    for (size_t r = 0; r < count; ++r)
      for (size_t c = 0; c < cols; ++c) turned.data<float>()[c * count + r] = floats[r * cols + c];
  }
  loaded(values);
  resident_bytes_ += turned.bytes();
  return {.name = name, .value = turned, .packed = {}};
}

// But gemma4's own: of what its router reads, and of what each expert says.
bool WeightLoader::is_scale(const NamedTensor& tensor) const {
  const bool own = file_.architecture() == "gemma4" && (tensor.name.ends_with(".ffn_gate_inp.scale") ||
                                                        tensor.name.ends_with(".ffn_down_exps.scale"));
  return tensor.name.ends_with(".scale") && !own;
}

void WeightLoader::refuse_scales() const {
  for (const NamedTensor& tensor : file_.tensors()) {
    const bool of_input = tensor.name.ends_with(".input_scale");
    if (!of_input && !is_scale(tensor)) continue;
    const std::string stem = tensor.name.substr(0, tensor.name.rfind('.'));
    const NamedTensor* matrix = file_.find(stem + ".weight");
    const bool known = matrix != nullptr && (of_input ? matrix->stored_type == "NVFP4"
                                                      : matrix->shape.rank() == 2 && tensor.count() == 1 &&
                                                            stem != "token_embd" && !training_);
    if (!known)
      fail(Errc::kUnsupported,
           "{}: tensor {}: products that are multiplied by a scale apart are not supported here",
           file_.path().string(), tensor.name);
  }
}

void WeightLoader::check_scales_used(const Needs& here) const {
  for (const NamedTensor& tensor : file_.tensors())
    if (is_scale(tensor) && here(tensor.name) && !scaled_.contains(tensor.name))
      fail(Errc::kUnsupported,
           "{}: tensor {}: products that are multiplied by a scale apart are not supported here",
           file_.path().string(), tensor.name);
}

float WeightLoader::scale_of(const std::string& stem) {
  const NamedTensor* scale = file_.find(stem + ".scale");
  if (scale == nullptr || !is_scale(*scale)) return 1;
  scaled_.insert(scale->name);
  return flat_vector(scale->name, 1).value.data<float>()[0];
}

graph::Parameter WeightLoader::vector(const std::string& name, size_t count) {
  return floats(name, {static_cast<int64_t>(count)});
}

graph::Parameter WeightLoader::floats(const std::string& name, const Shape& shape) {
  const Tensor values = tensor(name, shape);
  if (training_) return {.name = name, .value = values, .trainable = true};
  const DType dtype = values.dtype();
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16)
    fail(Errc::kUnsupported, "{}: tensor {}: expected type F32, F16 or BF16, found {}", file_.path().string(),
         name, dtype_name(dtype));
  Tensor to = Tensor::zeros(DType::kF32, values.shape());
  MappedFile::guard(
      [&] { kernels::to_float(dtype, values.raw(), to.data<float>(), static_cast<size_t>(shape.count())); });
  loaded(values);
  resident_bytes_ += to.bytes();
  return {.name = name, .value = to, .packed = {}};
}

graph::Parameter WeightLoader::optional_vector(const std::string& name, size_t count) {
  return has(name) ? vector(name, count) : graph::Parameter{};
}

graph::Parameter WeightLoader::gathered_vector(const std::string& name, size_t count,
                                               std::span<const MemberRange> ranges) {
  graph::Parameter parameter = optional_vector(name, count);
  const std::vector<MemberRange> here = joined(ranges);
  if (!parameter || here.empty()) return {};
  parameter.value = tensor_rows(parameter.value, here);
  return parameter;
}

graph::Parameter WeightLoader::flat_vector(const std::string& name, size_t count) {
  const Tensor values = file_.tensor(name);
  if (values.count() != static_cast<int64_t>(count))
    fail(Errc::kCorrupt, "{}: tensor {}: expected {} values, found shape {}", file_.path().string(), name,
         count, values.shape().to_string());
  graph::Parameter parameter = floats(name, values.shape());
  parameter.value = parameter.value.reshape({static_cast<int64_t>(count)});
  return parameter;
}

graph::Parameter WeightLoader::mapped_table(const std::string& name, size_t rows, size_t cols) {
  const Tensor values = tensor(name, {static_cast<int64_t>(rows), static_cast<int64_t>(cols)});
  loaded(values);
  return {.name = name, .value = values, .packed = {}};
}

graph::Parameter WeightLoader::table(const std::string& name, size_t rows, size_t cols) {
  const Tensor values = tensor(name, {static_cast<int64_t>(rows), static_cast<int64_t>(cols)});
  if (training_)
    return {.name = name, .value = values, .trainable = !(embedding_frozen_ && name == "token_embd.weight")};
  loaded(values);
  resident_bytes_ += values.bytes();
  return {.name = name, .value = values, .packed = {}};
}

std::vector<nn::LowRank> WeightLoader::embedding_adapters(size_t vocab, size_t dim) {
  std::vector<nn::LowRank> found;
  const Shape whole{static_cast<int64_t>(vocab), static_cast<int64_t>(dim)};
  for (const Adapter& adapter : adapters_)
    if (const LoraPair* pair = adapter.find(kEmbeddingTensor)) {
      adapted_.insert(pair->target);
      found.push_back(low_rank_rows(adapter, *pair, file_, whole));
    }
  return found;
}

void WeightLoader::check_adapters_used(const Needs& here) const {
  for (const Adapter& adapter : adapters_)
    for (const LoraPair& pair : adapter.pairs)
      if (!adapted_.contains(pair.target) && (!here || here(pair.target))) refuse_pair(adapter, pair, file_);
}

}  // namespace butterfly::model
