#include "model/formats/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/printable.h"
#include "kernels/quant/quant.h"
#include "model/formats/float_type.h"
#include "model/formats/gguf_writer.h"
#include "model/tokenizer/vocabulary.h"

namespace butterfly::model {
namespace {

constexpr size_t kChunkValues = size_t{1} << 20;
constexpr uint32_t kQuantizationVersion = 2;  // of ggml's block layouts

std::vector<DType> types_as_they_are(const ModelFile& from, const ModelFile& like) {
  std::vector<DType> types;
  for (const NamedTensor& named : from.tensors()) {
    const NamedTensor* there = like.find(named.name);
    const NamedTensor& tensor = there == nullptr ? named : *there;
    // Vectors of 16 bits become floats: it costs nothing, and readers of GGUF expect it.
    const bool small = tensor.shape.rank() <= 1 && is_float(tensor.dtype);
    types.push_back(small ? DType::kF32 : tensor.dtype);
  }
  return types;
}

void check_tensor(const ModelFile& from, const NamedTensor& tensor, DType to, const ConvertOptions& options) {
  const auto refuse = [&](Errc code, const std::string& words) {
    fail(code, "{}: tensor {}: {}", from.path().string(), printable(tensor.name), words);
  };
  if (!tensor.foreign_type.empty() || dtype_info(tensor.dtype).gguf_id < 0)
    refuse(Errc::kUnsupported, fmt::format("GGUF has no type {}", tensor.type_name()));
  if (tensor.dtype == to) return;
  if (dtype_info(tensor.dtype).quantised() && !options.allow_requantize)
    throw RequantizeError(fmt::format("{}: tensor {}: is {} already and would lose more as {}",
                                      from.path().string(), printable(tensor.name), dtype_name(tensor.dtype),
                                      dtype_name(to)));
  if (!kernels::can_quantize(to))
    refuse(Errc::kUnsupported, fmt::format("this build cannot write {}", dtype_name(to)));
}

void refuse_own_files(const ModelFile& from, const std::filesystem::path& to) {
  std::error_code ignored;
  for (const auto& file : from.files())
    if (std::filesystem::equivalent(file->path(), to, ignored))
      fail(Errc::kInvalidArgument, "{}: is the model that is read; write to another file", to.string());
}

// Hands one tensor's values to the writer in chunks of whole blocks.
class Streamer {
 public:
  Streamer(const ModelFile& from, ThreadPool& pool, const ConvertProgress& progress)
      : from_(from), pool_(pool), progress_(progress), total_(from.tensor_bytes()) {}

  void write(const NamedTensor& entry, DType to, ByteSink& sink) {
    const Tensor tensor = from_.tensor(entry.name);
    const DTypeInfo& in = dtype_info(tensor.dtype());
    const DTypeInfo& out = dtype_info(to);
    // Both are powers of two and divide every row.
    const size_t unit = std::max(in.block_values, out.block_values);
    const auto count = static_cast<size_t>(tensor.count());
    const bool same = in.dtype == out.dtype;
    floats_.resize(same ? 0 : std::min(count, kChunkValues));
    bytes_.resize(*dtype_bytes(to, std::min(count, kChunkValues)));
    for (size_t begin = 0; begin < count; begin += kChunkValues) {
      const size_t size = std::min(kChunkValues, count - begin);
      const std::byte* source = tensor.raw() + *dtype_bytes(in.dtype, begin);
      pool_.parallel_for(size / unit, 16, [&](size_t first, size_t last) {
        const size_t at = first * unit, values = (last - first) * unit;
        const std::byte* piece = source + at / in.block_values * in.block_bytes;
        std::byte* target = bytes_.data() + at / out.block_values * out.block_bytes;
        if (same) {
          std::memcpy(target, piece, values / in.block_values * in.block_bytes);
        } else {
          kernels::to_float(in.dtype, piece, floats_.data() + at, values);
          kernels::from_float(to, floats_.data() + at, target, values);
        }
      });
      sink.write({bytes_.data(), *dtype_bytes(to, size)});
      done_ += *dtype_bytes(in.dtype, size);
      if (progress_) progress_(done_, total_, entry.name);
    }
    from_.done_with(tensor);
  }

 private:
  const ModelFile& from_;
  ThreadPool& pool_;
  const ConvertProgress& progress_;
  uint64_t done_ = 0;
  uint64_t total_;
  std::vector<float> floats_;
  std::vector<std::byte> bytes_;
};

}  // namespace

ConvertResult convert_model(const ModelFile& from, const std::filesystem::path& to,
                            const ConvertOptions& options, ThreadPool& pool,
                            const ConvertProgress& progress) {
  refuse_own_files(from, to);
  if (from.metadata().has(kTokenizerWhyNotKey))
    fail(Errc::kUnsupported, "{}", from.metadata().string(kTokenizerWhyNotKey));
  const std::vector<DType> types =
      options.type ? plan_types(from, *options.type, options.pure)
                   : types_as_they_are(from, options.types_of == nullptr ? from : *options.types_of);
  Metadata metadata = from.metadata();
  if (options.type) metadata.set("general.file_type", options.type->number);
  metadata.set("general.quantization_version", kQuantizationVersion);

  ConvertResult result;
  Streamer streamer(from, pool, progress);
  GgufWriter writer(std::move(metadata));
  for (size_t i = 0; i < types.size(); ++i) {
    const NamedTensor& tensor = from.tensors()[i];
    check_tensor(from, tensor, types[i], options);
    if (options.type && is_quantisable(tensor) &&
        tensor.shape.back() % dtype_info(options.type->base).block_values != 0)
      ++result.fallbacks;
    writer.add_tensor(
        tensor.name, types[i], tensor.shape,
        [&streamer, &tensor, type = types[i]](ByteSink& sink) { streamer.write(tensor, type, sink); });
  }
  writer.write(to);
  result.bytes = writer.file_bytes();
  return result;
}

}  // namespace butterfly::model
