#include "model/weights.h"

#include "base/error.h"
#include "kernels/quant/quant.h"

namespace butterfly::model {

WeightLoader::WeightLoader(const ModelFile& file, ThreadPool& pool, LoadProgress progress)
    : file_(file), pool_(pool), progress_(std::move(progress)), total_bytes_(file.tensor_bytes()) {}

void WeightLoader::loaded(const Tensor& tensor) {
  done_bytes_ += tensor.bytes();
  if (progress_) progress_(std::min(done_bytes_, total_bytes_), total_bytes_);
}

graph::Parameter WeightLoader::matrix(const std::string& name, size_t out, size_t in) {
  const Tensor tensor = file_.tensor(name, {static_cast<int64_t>(out), static_cast<int64_t>(in)});
  graph::Parameter parameter{
      .name = name, .value = {}, .packed = kernels::PackedMatrix::uninitialised(tensor)};
  pool_.parallel_for(parameter.packed.panels(), 1, [&](size_t begin, size_t end) {
    MappedFile::guard([&] { parameter.packed.pack_panels(tensor, begin, end); });
  });
  if (parameter.packed.repacked()) {
    packed_bytes_ += parameter.packed.bytes();
    if (file_.mapping() != nullptr) file_.mapping()->done_with(file_.find(name)->offset, tensor.bytes());
  }
  loaded(tensor);
  return parameter;
}

graph::Parameter WeightLoader::vector(const std::string& name, size_t count) {
  const Tensor tensor = file_.tensor(name, {static_cast<int64_t>(count)});
  const DType dtype = tensor.dtype();
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16)
    fail(Errc::kUnsupported, "{}: tensor {}: expected type F32, F16 or BF16, found {}", file_.path().string(),
         name, dtype_name(dtype));
  Tensor floats = Tensor::zeros(DType::kF32, tensor.shape());
  MappedFile::guard([&] { kernels::to_float(dtype, tensor.raw(), floats.data<float>(), count); });
  loaded(tensor);
  return {.name = name, .value = floats, .packed = {}};
}

graph::Parameter WeightLoader::optional_vector(const std::string& name, size_t count) {
  return has(name) ? vector(name, count) : graph::Parameter{};
}

graph::Parameter WeightLoader::table(const std::string& name, size_t rows, size_t cols) {
  const Tensor tensor = file_.tensor(name, {static_cast<int64_t>(rows), static_cast<int64_t>(cols)});
  loaded(tensor);
  return {.name = name, .value = tensor, .packed = {}};
}

}  // namespace butterfly::model
