#include "runtime/planning/model_shape.h"

#include <algorithm>

#include "tensor/memory.h"

namespace butterfly::runtime {
namespace {

using model::ModelFile;
using model::NamedTensor;
using model::RandomModelOptions;

struct Sizes {
  const char* architecture;
  uint32_t layers, dim, ff, heads, kv_heads, vocab, context;
};

RandomModelOptions options_of(const Sizes& s) {
  RandomModelOptions o;
  o.architecture = s.architecture;
  o.block_count = s.layers;
  o.embedding_length = s.dim;
  o.feed_forward_length = s.ff;
  o.head_count = s.heads;
  o.head_count_kv = s.kv_heads;
  o.vocabulary_size = s.vocab;
  o.context_length = s.context;
  return o;
}

RandomModelOptions mixtral_8x7b() {
  RandomModelOptions o = options_of({"mixtral", 32, 4096, 14336, 32, 8, 32000, 32768});
  o.expert_count = 8;
  o.expert_used_count = 2;
  return o;
}

// Qwen3 30B A3B: its feed_forward_length is an expert's here.
RandomModelOptions qwen3_30b_a3b() {
  RandomModelOptions o = options_of({"qwen3moe", 48, 2048, 768, 32, 4, 151936, 40960});
  o.head_length = 128;
  o.expert_count = 128;
  o.expert_used_count = 8;
  return o;
}

// Sizes as published with each model.
constexpr NamedShape kShapes[] = {
    {"gpt2", "GPT-2 124M, 12 layers",
     [] {
       return options_of({"gpt2", 12, 768, 3072, 12, 12, 50257, 1024});
     }},
    {"gpt2-xl", "GPT-2 1.5B, 48 layers",
     [] {
       return options_of({"gpt2", 48, 1600, 6400, 25, 25, 50257, 1024});
     }},
    {"qwen2-1.5b", "Qwen2 1.5B, 28 layers",
     [] {
       return options_of({"qwen2", 28, 1536, 8960, 12, 2, 151936, 32768});
     }},
    {"llama-7b", "Llama 2 7B, 32 layers",
     [] {
       return options_of({"llama", 32, 4096, 11008, 32, 32, 32000, 4096});
     }},
    {"llama-8b", "Llama 3 8B, 32 layers",
     [] {
       return options_of({"llama3", 32, 4096, 14336, 32, 8, 128256, 8192});
     }},
    {"llama-70b", "Llama 3 70B, 80 layers",
     [] {
       return options_of({"llama3", 80, 8192, 28672, 64, 8, 128256, 8192});
     }},
    {"gpt3-175b", "GPT-3 175B, 96 layers",
     [] {
       return options_of({"gpt2", 96, 12288, 49152, 96, 96, 50257, 2048});
     }},
    {"mixtral-8x7b", "Mixtral 8x7B, 32 layers of 8 experts", mixtral_8x7b},
    {"qwen3-30b-a3b", "Qwen3 30B, 48 layers of 128 experts", qwen3_30b_a3b},
};

// Nobody reads or writes the values, so all tensors lie on the same memory; untouched, it costs nothing (see
// allocate_memory()).
class Untouched {
 public:
  void make_room(DType dtype, const Shape& shape) {
    bytes_ = std::max(bytes_, *dtype_bytes(dtype, static_cast<uint64_t>(shape.count())));
  }
  NamedTensor tensor(std::string name, DType dtype, Shape shape) {
    if (!memory_) memory_ = Buffer::allocate(std::max<uint64_t>(bytes_, kMapFrom));
    return NamedTensor(std::move(name), dtype, shape,
                       [memory = memory_, dtype, shape] { return Tensor(memory, dtype, shape); });
  }

 private:
  uint64_t bytes_ = 0;
  Buffer memory_;
};

// Norms and frequency factors are read while a network is built: ones are as good as any.
NamedTensor ones(std::string name, Shape shape) {
  return NamedTensor(std::move(name), DType::kF32, shape, [shape] {
    Tensor tensor = Tensor::zeros(DType::kF32, shape);
    std::fill_n(tensor.data<float>(), shape.count(), 1.0f);
    return tensor;
  });
}

}  // namespace

std::span<const NamedShape> named_shapes() { return kShapes; }

const NamedShape* find_shape(std::string_view name) {
  for (const NamedShape& shape : kShapes)
    if (shape.name == name) return &shape;
  return nullptr;
}

ModelFile shape_file(const NamedShape& shape, DType matrix_type, DType vocabulary_type) {
  RandomModelOptions options = shape.options();
  options.matrix_type = matrix_type;
  options.vocabulary_type = vocabulary_type;
  return shape_file(options, std::string(shape.name));
}

ModelFile shape_file(const RandomModelOptions& options, const std::string& name) {
  const model::RandomArchitecture& row = model::random_architecture(options.architecture);
  model::Metadata metadata;
  metadata.set("general.architecture", std::string(row.architecture));
  metadata.set("general.name", name);
  row.add_metadata(options, metadata);
  std::vector<NamedTensor> tensors;
  Untouched untouched;
  const std::vector<model::TensorPlan> plans = row.plan(options);
  for (const model::TensorPlan& plan : plans) untouched.make_room(plan.dtype, plan.shape);
  for (const model::TensorPlan& plan : plans)
    tensors.push_back(plan.shape.rank() == 1 ? ones(plan.name, plan.shape)
                                             : untouched.tensor(plan.name, plan.dtype, plan.shape));
  return ModelFile("shape", name, std::move(metadata), std::move(tensors), {});
}

ModelFile without_values(const ModelFile& file) {
  std::vector<NamedTensor> tensors;
  Untouched untouched;
  const auto keep = [](const NamedTensor& tensor) {
    return tensor.shape.rank() < 2 || !tensor.foreign_type.empty();
  };
  for (const NamedTensor& tensor : file.tensors())
    if (!keep(tensor)) untouched.make_room(tensor.dtype, tensor.shape);
  for (const NamedTensor& tensor : file.tensors())
    tensors.push_back(keep(tensor) ? tensor : untouched.tensor(tensor.name, tensor.dtype, tensor.shape));
  return ModelFile(file.format(), file.path(), file.metadata(), std::move(tensors),
                   {file.files().begin(), file.files().end()});
}

}  // namespace butterfly::runtime
