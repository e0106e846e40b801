#include "train/task/stage_network.h"

#include "base/error.h"
#include "train/networks/lora_transformer.h"
#include "train/networks/transformer.h"
#include "train/task/lora.h"

namespace butterfly::train {

StageSource stage_source(const TrainableNetwork& whole, std::span<const std::string> names) {
  const std::vector<std::string> all(names.begin(), names.end());
  if (const auto* adapter = dynamic_cast<const LoraTransformer*>(&whole))
    return {{adapter->base(), all}, adapter->base()};
  const auto* network = dynamic_cast<const Transformer*>(&whole);
  if (network == nullptr) fail(Errc::kUnsupported, "pipeline_stages: only transformers are cut into stages");
  return {{network->file(), all}, std::nullopt};
}

FrozenPieces frozen_pieces(const StageSource& source, size_t layers) {
  FrozenPieces pieces{std::vector<uint64_t>(layers + 2), std::vector<double>(layers + 2)};
  if (!source.base) return pieces;
  const bool head = source.base->has("output.weight");
  for (const model::NamedTensor& tensor : source.base->tensors()) {
    // Blocks that guess further ahead are not there.
    if (!model::range_needs({0, layers}, layers, *source.base, tensor.name)) continue;
    const size_t piece = piece_of_parameter(*source.base, layers, false, tensor.name);
    const uint64_t bytes = source.base->tensor(tensor.name).bytes();
    // Rows of the table are looked up, and a head without a matrix of its own multiplies by it.
    const bool table = tensor.name == "token_embd.weight";
    pieces.bytes[piece] += bytes;
    if (table && !head) pieces.bytes[layers + 1] += bytes;
    if (tensor.shape.rank() < 2 || (table && head)) continue;
    pieces.flops[table ? layers + 1 : piece] += 4.0 * static_cast<double>(tensor.count());
  }
  return pieces;
}

void write_stage_source(const TrainableNetwork& whole, std::span<const std::string> names,
                        const std::filesystem::path& path) {
  if (const auto* adapter = dynamic_cast<const LoraTransformer*>(&whole))
    return write_lora_network(*adapter, path, {{kOutlineNamesKey, names_text(names)}});
  const auto* network = dynamic_cast<const Transformer*>(&whole);
  if (network == nullptr) fail(Errc::kUnsupported, "pipeline_stages: only transformers are cut into stages");
  write_outline(*network, names, path);
}

StageSource read_stage_source(const TrainConfig& config, const std::filesystem::path& path) {
  const model::ModelFile written = model::open_model(path);
  if (!is_lora_network(written)) return {read_outline(path), std::nullopt};
  return {{written, outline_names(written.metadata())}, find_lora_base(config, written)};
}

std::unique_ptr<TrainableNetwork> open_stage_network(const TrainConfig& config, const StageSource& source,
                                                     const model::LayerRange& range) {
  if (source.base) return open_lora_network(config, source.outline.file, *source.base, range);
  return std::make_unique<Transformer>(
      source.outline.file,
      TransformerOptions{
          .length = config.sequence_len, .dropout = static_cast<float>(config.dropout), .range = range});
}

}  // namespace butterfly::train
