#include "train/networks/transformer.h"

#include <cmath>

#include "base/error.h"
#include "base/random_stream.h"
#include "base/rng.h"
#include "base/thread_pool.h"
#include "model/arch/weights.h"
#include "model/formats/file_type.h"
#include "model/formats/gguf_writer.h"

namespace butterfly::train {
namespace {

const model::RandomArchitecture& architecture_named(const std::string& name) {
  std::string known;
  for (const model::RandomArchitecture& row : model::random_architectures()) {
    if (row.name == name) return row;
    known += known.empty() ? std::string(row.name) : ", " + std::string(row.name);
  }
  fail(Errc::kUnsupported, "architecture '{}': expected one of {}", name, known);
}

struct Start {
  float mean, deviation;
};

Start start_of(const std::string& name, const Shape& shape, uint32_t blocks, float deviation) {
  if (name.ends_with("_norm.weight") || name == "rope_freqs.weight") return {1, 0};
  if (shape.rank() < 2) return {0, 0};
  const bool adds = name.ends_with("attn_output.weight") || name.ends_with("ffn_down.weight");
  return {0, adds ? deviation / std::sqrt(2 * static_cast<float>(blocks)) : deviation};
}

}  // namespace

model::ModelFile untrained_model(const model::RandomModelOptions& sizes, const model::Metadata& keys,
                                 float deviation) {
  const model::RandomArchitecture& architecture = architecture_named(sizes.architecture);
  model::Metadata metadata("untrained model");
  metadata.set("general.architecture", std::string(architecture.architecture));
  metadata.set("general.file_type", model::file_type_number(DType::kF32));
  architecture.add_metadata(sizes, metadata);
  for (const auto& entry : keys.entries()) metadata.set(entry.key, entry.value);
  ThreadPool pool;
  std::vector<model::NamedTensor> tensors;
  for (const model::TensorPlan& plan : architecture.plan(sizes)) {
    Tensor tensor = Tensor::zeros(DType::kF32, plan.shape);
    const Start start = start_of(plan.name, plan.shape, sizes.block_count, deviation);
    const uint64_t stream = random_stream(plan.name);
    auto* values = tensor.data<float>();
    pool.parallel_for(static_cast<size_t>(tensor.count()), 4096, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i)
        values[i] = start.deviation == 0
                        ? start.mean
                        : start.mean + start.deviation * random_normal(sizes.seed, stream, i);
    });
    tensors.emplace_back(plan.name, tensor, 0);
  }
  return model::ModelFile("memory", "untrained model", std::move(metadata), std::move(tensors), {});
}

void check_length(const TransformerOptions& options, const model::ModelConfig& config) {
  if (options.length == 0 || options.length > config.context)
    fail(Errc::kInvalidArgument, "sequences of {}: expected 1 to {}, the model's context", options.length,
         config.context);
}

BuiltNetwork build_transformer(const model::Network& network, graph::Graph& graph,
                               const model::TrainingShape& shape) {
  const model::TrainingValues values = network.build_training(graph, shape);
  return {.tokens = values.tokens,
          .hidden = values.hidden,
          .embedded = values.embedded,
          .output = values.output,
          .positions = values.positions,
          .pixels = {},
          .targets = values.targets,
          .factor = values.factor,
          .dropout_key = values.dropout_key,
          .loss = values.loss,
          .shown = values.shown,
          .length = shape.preference_beta > 0 ? 2 * shape.length : shape.length,
          .sequences = shape.preference_beta > 0 ? 2u : 1u};
}

Transformer::Transformer(const model::ModelFile& file, const TransformerOptions& options)
    : file_(file), config_(model::read_config(file)), options_(options) {
  check_length(options, config_);
  ThreadPool pool(1);
  model::WeightLoader weights(file_, pool);
  weights.keep_for_training();
  const model::LayerRange range = options.range.value_or(model::LayerRange{0, config_.layers});
  model::check_range(range, config_.layers);
  if (tied() && !range.has_head(config_.layers)) weights.freeze_embedding();
  network_ = model::architecture_of(file_).load(config_, weights, range);
  weights_ = weights.masters();
}

BuiltNetwork Transformer::build_shorter(graph::Graph& graph, size_t items, bool training,
                                        size_t length) const {
  return build_transformer(*network_, graph,
                           {.sequences = items,
                            .length = length,
                            .dropout = training ? options_.dropout : 0,
                            .gradients = training});
}

void Transformer::write_gguf(const std::filesystem::path& path) const {
  model::Metadata metadata = file_.metadata();
  metadata.set("general.file_type", model::file_type_number(DType::kF32));
  for (const auto& entry : keys_.entries()) metadata.set(entry.key, entry.value);
  model::GgufWriter writer(std::move(metadata));
  // In the file's order; tensors that no layer learns (frequency factors) as they were.
  for (const model::NamedTensor& tensor : file_.tensors()) {
    const auto it = weights_.find(tensor.name);
    writer.add_tensor(tensor.name, it != weights_.end() ? it->second : file_.tensor(tensor.name));
  }
  writer.write(path);
}

}  // namespace butterfly::train
