#include "model/arch/model_config.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/math/math.h"
#include "model/arch/config_keys.h"
#include "model/arch/network.h"

namespace butterfly::model {
namespace {

// A vector of frequency divisors, one per rotated pair.
std::vector<float> read_factors(const ModelFile& file, const std::string& name, size_t pairs) {
  const Tensor factors = file.tensor(name, {static_cast<int64_t>(pairs)});
  if (factors.dtype() != DType::kF32)
    fail(Errc::kCorrupt, "{}: tensor {}: expected type F32, found {}", file.path().string(), name,
         dtype_name(factors.dtype()));
  std::vector<float> values(pairs);
  MappedFile::guard([&] { std::copy_n(factors.data<float>(), pairs, values.data()); });
  return values;
}

kernels::RopeParams read_rope(const ModelFile& file, const ConfigKeys& keys, const ModelConfig& config) {
  kernels::RopeParams rope;
  rope.head_dim = config.head_dim;
  rope.rotated = keys.size_or("rope.dimension_count", config.head_dim, config.head_dim);
  rope.base = keys.f32_or("rope.freq_base", 10000.0f);
  // Without a type a factor is linear. "longrope" has factors per pair, and at most a linear one besides.
  const std::string scaling = keys.string_or("rope.scaling.type", "linear");
  try {
    rope.scaling = kernels::rope_scaling_by_name(scaling == "longrope" ? "linear" : scaling);
  } catch (const Error& error) {
    fail(Errc::kUnsupported, "{}: key {}: {}", file.path().string(), keys.key("rope.scaling.type"),
         error.what());
  }
  const float factor = keys.f32_or("rope.scaling.factor", keys.f32_or("rope.scale_linear", 1.0f));
  rope.factor = factor == 0 ? 1.0f : factor;
  rope.original_context = static_cast<double>(
      keys.size_or("rope.scaling.original_context_length", config.context, kSizeMax * 64));
  rope.attn_factor = keys.f32_or("rope.scaling.attn_factor", 1.0f);
  // A magnitude of its own instead of YaRN's 1 + 0.1 ln(factor): 1 if this is 1.
  const double multiplier = keys.f32_or("rope.scaling.yarn_log_multiplier", 0);
  if (multiplier > 0 && rope.scaling == kernels::RopeScaling::kYarn && rope.factor > 1)
    rope.attn_factor /= 1 + 0.1 * multiplier * kernels::log_f64(rope.factor);
  rope.ext_factor = keys.f32_or("rope.scaling.yarn_ext_factor", 1.0f);
  rope.beta_fast = keys.f32_or("rope.scaling.yarn_beta_fast", 32.0f);
  rope.beta_slow = keys.f32_or("rope.scaling.yarn_beta_slow", 1.0f);
  // One set of factors, or one for contexts up to the original length and one beyond.
  const bool beyond = static_cast<double>(config.run_context) > rope.original_context;
  const std::string long_or_short = beyond ? "rope_factors_long.weight" : "rope_factors_short.weight";
  for (const std::string& name : {std::string("rope_freqs.weight"), long_or_short})
    if (rope.freq_factors.empty() && file.has(name))
      rope.freq_factors = read_factors(file, name, rope.rotated / 2);
  return rope;
}

// One number for all blocks, or a list.
std::vector<size_t> read_kv_heads(const ConfigKeys& keys, const ModelConfig& config) {
  constexpr const char* kName = "attention.head_count_kv";
  if (!keys.has(kName)) return std::vector<size_t>(config.layers, config.heads);
  if (!keys.is_list(kName)) return std::vector<size_t>(config.layers, keys.size(kName, config.heads));
  return keys.sizes(kName, config.layers, config.heads);
}

std::vector<size_t> read_ff(const ConfigKeys& keys, const ModelConfig& config) {
  const char* name = keys.has("feed_forward_length") || !keys.has("expert_feed_forward_length")
                         ? "feed_forward_length"
                         : "expert_feed_forward_length";
  if (keys.is_list(name)) return keys.sizes(name, config.layers, kSizeMax);
  return std::vector<size_t>(config.layers, keys.size(name, kSizeMax));
}

}  // namespace

std::vector<LayerState> full_states(const ModelFile&, const ModelConfig& config) {
  std::vector<LayerState> states;
  for (const size_t kv_heads : config.layer_kv_heads)
    states.push_back({.kind = StateKind::kFull, .kv_heads = kv_heads, .head_dim = config.head_dim});
  return states;
}

std::vector<LayerState> window_states(const ModelFile& file, const ModelConfig& config) {
  std::vector<LayerState> states = full_states(file, config);
  const size_t window = ConfigKeys(file).optional_size("attention.sliding_window", UINT32_MAX);
  if (window == 0) return states;
  for (LayerState& state : states) {
    state.kind = StateKind::kWindow;
    state.window = window;
  }
  return states;
}

std::vector<LayerState> pattern_states(const ModelFile& file, const ModelConfig& config, size_t window,
                                       size_t period) {
  const ConfigKeys keys(file);
  const size_t layers = config.layers;
  if (keys.has("attention.sliding_window"))
    window = keys.optional_size("attention.sliding_window", UINT32_MAX);
  std::vector<bool> is_local;
  const std::string name = keys.key("attention.sliding_window_pattern");
  const MetaValue* pattern = file.metadata().find(name);
  if (pattern != nullptr && std::holds_alternative<MetaArray>(*pattern)) {
    const auto* flags = std::get_if<std::vector<uint8_t>>(&std::get<MetaArray>(*pattern).elements);
    if (flags == nullptr || flags->size() != layers)
      fail(Errc::kCorrupt, "{}: key {}: expected {} booleans, found {}", file.path().string(), name, layers,
           meta_type_text(*pattern));
    is_local.assign(flags->begin(), flags->end());
  } else {
    period = keys.size_or("attention.sliding_window_pattern", period, kLayersMax);
    for (size_t layer = 0; layer < layers; ++layer) is_local.push_back(layer % period + 1 < period);
  }
  std::vector<LayerState> states = full_states(file, config);
  for (size_t layer = 0; layer < layers; ++layer)
    if (window > 0 && is_local[layer]) {
      states[layer].kind = StateKind::kWindow;
      states[layer].window = window;
    }
  return states;
}

ModelConfig read_config(const ModelFile& file, size_t run_context) {
  ModelConfig config;
  config.architecture = file.architecture();
  const ConfigKeys keys(file);
  // Blocks that guess tokens further ahead stand behind the others, and are not part of the network.
  const size_t blocks = keys.size("block_count", kLayersMax),
               ahead = keys.optional_size("nextn_predict_layers", kLayersMax);
  if (ahead >= blocks)
    fail(Errc::kCorrupt, "{}: key {}: expected less than the {} blocks, found {}", file.path().string(),
         keys.key("nextn_predict_layers"), blocks, ahead);
  config.layers = blocks - ahead;
  config.dim = keys.size("embedding_length", kSizeMax);
  config.heads = keys.size("attention.head_count", config.dim);
  config.layer_input_cols = keys.optional_size("embedding_length_per_layer_input", 65536);
  config.layer_kv_heads = read_kv_heads(keys, config);
  config.kv_heads = std::ranges::max(config.layer_kv_heads);
  if (config.kv_heads == 0) config.kv_heads = config.heads;  // no layer here has any
  config.layer_ff = read_ff(keys, config);
  config.ff = std::ranges::max(config.layer_ff);
  config.context = keys.size("context_length", kSizeMax * 64);
  config.run_context = run_context == 0 ? config.context : run_context;
  config.norm_eps =
      keys.f32_or("attention.layer_norm_rms_epsilon", keys.f32_or("attention.layer_norm_epsilon", 1e-5f));
  const std::string name = file.path().string();
  if (!keys.has("attention.key_length") && config.dim % config.heads != 0)
    fail(Errc::kCorrupt, "{}: {} columns do not divide into {} heads", name, config.dim, config.heads);
  config.head_dim = keys.size_or("attention.key_length", config.dim / config.heads, 65536);
  // Where values are parts of keys, their own length is another.
  const bool latent = keys.has("attention.kv_lora_rank");
  if (!latent && keys.size_or("attention.value_length", config.head_dim, 65536) != config.head_dim)
    fail(Errc::kUnsupported, "{}: keys of {} values and values of another size are not supported", name,
         config.head_dim);
  for (const size_t kv_heads : config.layer_kv_heads)
    if (kv_heads != 0 && config.heads % kv_heads != 0)
      fail(Errc::kCorrupt, "{}: {} heads do not divide into groups for {} KV heads", name, config.heads,
           kv_heads);

  const Tensor table = file.tensor("token_embd.weight");
  if (table.rank() != 2 || table.size(1) != static_cast<int64_t>(config.dim))
    fail(Errc::kCorrupt, "{}: tensor token_embd.weight: expected shape [vocabulary, {}], found {}", name,
         config.dim, table.shape().to_string());
  config.vocab = static_cast<size_t>(table.size(0));
  if (file.has("position_embd.weight"))
    config.positions_max = static_cast<size_t>(file.tensor("position_embd.weight").size(0));
  config.rope = read_rope(file, keys, config);
  // Files of other architectures can be looked at, and are refused when they are loaded.
  const Architecture* architecture = find_architecture(file.architecture());
  config.states = (architecture == nullptr ? full_states : architecture->states)(file, config);
  return config;
}

}  // namespace butterfly::model
