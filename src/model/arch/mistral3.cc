// Mistral 3 and Ministral 3: as Llama, with YaRN, and queries that grow with the logarithm of the position
// where the file has "attention.temperature_scale".
#include "base/error.h"
#include "model/arch/config_keys.h"
#include "model/arch/llama_like.h"

namespace butterfly::model {

std::unique_ptr<Network> load_mistral3(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  const ConfigKeys keys(weights.file());
  LlamaStyle style;
  if (keys.optional_size("expert_count", 65536) > 0)
    style.feed_forward = [&](const BlockLoader& from, size_t) { return from.moe(config.ff); };
  auto decoder = load_llama_like(config, weights, range, style);
  const float growth = keys.f32_or("attention.temperature_scale", 0);
  if (growth == 0) return decoder;
  // The rotation of a query carries its factor, which needs all of a head to be rotated.
  if (config.rope.rotated != config.head_dim)
    fail(Errc::kUnsupported, "{}: key {}: expected {} with {}, found {}", weights.file().path().string(),
         keys.key("rope.dimension_count"), config.head_dim, keys.key("attention.temperature_scale"),
         config.rope.rotated);
  kernels::RopeParams of_queries = config.rope;
  of_queries.growth = growth;
  decoder->query_rope = decoder->ropes.size();
  decoder->add_rope(of_queries, weights.file());
  return decoder;
}

}  // namespace butterfly::model
