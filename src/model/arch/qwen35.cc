// Qwen 3.5 and its kin: of every four layers three are linear attention by the gated delta rule, the fourth
// is attention whose outputs are gated; dense, or with experts. Qwen3-Next has its value heads in another
// order.
//
// Rope is by three coordinates for images; for text all three are the position, which is the usual rope.
#include <cmath>

#include "base/error.h"
#include "kernels/recurrent/causal_conv.h"
#include "kernels/recurrent/gated_delta.h"
#include "model/arch/config_keys.h"
#include "model/arch/llama_like.h"
#include "model/arch/recurrent_share.h"

namespace butterfly::model {
namespace {

struct DeltaNetConfig {
  graph::GatedDeltaShape shape;
  size_t taps;
};

DeltaNetConfig read_delta_net(const ModelFile& file) {
  const ConfigKeys keys(file);
  const size_t inner = keys.size("ssm.inner_size", kSizeMax), dim = keys.size("ssm.state_size", 4096);
  const size_t values = keys.size("ssm.time_step_rank", 65536), heads = keys.size("ssm.group_count", values);
  const auto wrong = [&](const char* key, const std::string& expected, size_t found) {
    fail(Errc::kUnsupported, "{}: key {}: expected {}, found {}", file.path().string(), keys.key(key),
         expected, found);
  };
  if (dim % kernels::kDeltaPanel != 0)
    wrong("ssm.state_size", fmt::format("a multiple of {}", kernels::kDeltaPanel), dim);
  if (inner != values * dim) wrong("ssm.inner_size", fmt::format("{} heads of {}", values, dim), inner);
  if (values % heads != 0) wrong("ssm.group_count", fmt::format("a divisor of {}", values), heads);
  const size_t taps = keys.size("ssm.conv_kernel", 65536);
  if (taps < 2 || taps > kernels::kConvTapsMax)
    wrong("ssm.conv_kernel", fmt::format("2 to {}", kernels::kConvTapsMax), taps);
  return {{.place = {},
           .key_heads = heads,
           .value_heads = values,
           .key_dim = dim,
           .value_dim = dim,
           .tiled = file.architecture() != "qwen3next",
           .scale = 1.0f / std::sqrt(static_cast<float>(dim)),
           .a = nullptr,
           .dt = nullptr},
          taps};
}

LayerState state_of(const graph::GatedDeltaShape& shape, size_t taps) {
  const nn::DeltaNetState sizes = nn::delta_net_state(shape, taps);
  return {
      .kind = StateKind::kRecurrent, .state_floats = sizes.floats(), .guess_floats = sizes.guess_floats()};
}

// Every fourth layer attends to all positions, unless the file counts or lists them in another way.
std::vector<bool> recurrent_layers(const ModelFile& file, size_t layers) {
  const ConfigKeys keys(file);
  const std::string name = keys.key("attention.recurrent_layers");
  const MetaValue* listed = file.metadata().find(name);
  if (listed == nullptr) {
    const size_t interval = keys.size_or("full_attention_interval", 4, kLayersMax);
    std::vector<bool> recurrent;
    for (size_t layer = 0; layer < layers; ++layer) recurrent.push_back((layer + 1) % interval != 0);
    return recurrent;
  }
  const auto* array = std::get_if<MetaArray>(listed);
  const auto* flags = array == nullptr ? nullptr : std::get_if<std::vector<uint8_t>>(&array->elements);
  // Blocks that guess ahead may be in the list.
  if (flags == nullptr || flags->size() < layers)
    fail(Errc::kCorrupt, "{}: key {}: expected {} booleans, found {}", file.path().string(), name, layers,
         meta_type_text(*listed));
  return {flags->begin(), flags->begin() + static_cast<ptrdiff_t>(layers)};
}

// `feed_forward(from)`: the block's feed-forward part.
template <typename F>
std::unique_ptr<Network> load_hybrid(const ModelConfig& config, WeightLoader& weights, LayerRange range,
                                     F&& feed_forward) {
  const DeltaNetConfig net = read_delta_net(weights.file());
  const AttentionStyle style{.layout = kernels::RopeLayout::kHalfSplit,
                             .norms = AttentionNorms::kHeads,
                             .gated = true,
                             .scale = ConfigKeys(weights.file()).f32_or("attention.scale", 0)};
  auto decoder = std::make_unique<Decoder>(config, weights, range);
  decoder->add_rope(config.rope, weights.file());
  for (size_t layer = range.begin; layer < range.end; ++layer) {
    const BlockLoader from(*decoder, weights, layer);
    nn::TransformerBlock block;
    block.attention_norm = from.norm("attn_norm");
    if (config.states[layer].kind == StateKind::kRecurrent) {
      block.delta_net = from.delta_net(net.shape, net.taps);
    } else {
      block.attention = from.attention(style);
    }
    block.mlp_norm = from.norm("post_attention_norm");
    block.mlp = feed_forward(from);
    decoder->blocks.push_back(std::move(block));
  }
  return decoder;
}

}  // namespace

std::vector<LayerState> qwen35_states(const ModelFile& file, const ModelConfig& config) {
  const DeltaNetConfig net = read_delta_net(file);
  std::vector<LayerState> states = full_states(file, config);
  const std::vector<bool> recurrent = recurrent_layers(file, config.layers);
  for (size_t layer = 0; layer < config.layers; ++layer)
    if (recurrent[layer]) states[layer] = state_of(net.shape, net.taps);
  return states;
}

LayerState qwen35_share(const ModelFile& file, const ModelConfig& config, const GroupShare& group,
                        size_t layer) {
  const auto& [shape, taps] = read_delta_net(file);
  const nn::ShardOwners owners = mixer_owners(group, file, fmt::format("blk.{}.ssm_out", layer),
                                              shape.value_heads * shape.value_dim, config.dim);
  return state_of(delta_net_part(shape, owners).shape, taps);
}

std::unique_ptr<Network> load_qwen35(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  return load_hybrid(config, weights, range,
                     [](const BlockLoader& from) { return from.gated_mlp(nn::Activation::kSilu); });
}

std::unique_ptr<Network> load_qwen35moe(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  const ConfigKeys keys(weights.file());
  const size_t ff = expert_columns(weights.file(), config);
  const size_t shared = keys.size_or("expert_shared_feed_forward_length", config.ff, kSizeMax);
  return load_hybrid(config, weights, range, [&](const BlockLoader& from) {
    nn::Moe moe = from.moe(ff);
    from.add_shared_expert(moe, shared);
    return moe;
  });
}

}  // namespace butterfly::model
