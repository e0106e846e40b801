#include "model/arch/predictor.h"

#include <fmt/format.h>

#include "base/check.h"
#include "model/arch/config_keys.h"

namespace butterfly::model {
namespace {

// As if the block were one more layer.
ModelConfig with_one_more(ModelConfig config) {
  config.states.push_back(
      {.kind = StateKind::kFull, .kv_heads = config.kv_heads, .head_dim = config.head_dim});
  for (const LayerState& state : config.states)  // as the others that attend, whatever the last one does
    if (state.kind == StateKind::kFull && state.kv_heads > 0) {
      config.states.back() = state;
      break;
    }
  config.layer_kv_heads.push_back(config.kv_heads);
  config.layer_ff.push_back(config.layer_ff.back());
  ++config.layers;
  return config;
}

}  // namespace

size_t predicting_blocks(const ModelFile& file) {
  return ConfigKeys(file).optional_size("nextn_predict_layers", kLayersMax);
}

std::string why_not_predict(const ModelFile& file) {
  const size_t blocks = predicting_blocks(file);
  const Architecture* architecture = find_architecture(file.architecture());
  if (blocks == 0) return "the file has no block that predicts";
  if (architecture == nullptr || !architecture->predicts)
    return fmt::format("blocks of {} that predict are not run", file.architecture());
  if (blocks > 1) return fmt::format("{} blocks predict, of which none is run: one would be", blocks);
  const size_t layer = ConfigKeys(file).size("block_count", kLayersMax) - 1;
  if (!file.has(fmt::format("blk.{}.nextn.eh_proj.weight", layer)))
    return fmt::format("tensor blk.{}.nextn.eh_proj.weight is not in the file", layer);
  return {};
}

std::optional<LayerState> predicting_state(const ModelFile& file, const ModelConfig& config) {
  if (!why_not_predict(file).empty()) return std::nullopt;
  return with_one_more(config).states.back();
}

Predictor::Predictor(const ModelConfig& config, WeightLoader& weights, const Decoder& trunk,
                     const Architecture& row)
    : trunk_(trunk) {
  const size_t layer = config.layers;
  network_ = row.load(with_one_more(config), weights,
                      {.begin = layer, .end = layer + 1, .without_embedding = true, .without_head = true});
  body_ = dynamic_cast<const Decoder*>(network_.get());
  BF_CHECK(body_ != nullptr) << config.architecture;
  const std::string prefix = fmt::format("blk.{}.nextn.", layer);
  const auto norm = [&](const char* name) {
    return nn::Norm{
        nn::NormKind::kRms, weights.vector(prefix + name + ".weight", config.dim), {}, config.norm_eps};
  };
  token_norm_ = norm("enorm");
  hidden_norm_ = norm("hnorm");
  join_ = weights.linear(prefix + "eh_proj", config.dim, 2 * config.dim);
  head_norm_ = weights.has(prefix + "shared_head_norm.weight") ? norm("shared_head_norm") : trunk.norm;
  if (const std::string name = prefix + "embed_tokens.weight"; weights.has(name))
    embedding_ = weights.table(name, config.vocab, config.dim);
  if (weights.has(prefix + "shared_head_head.weight"))
    head_ = weights.linear(prefix + "shared_head_head", config.vocab, config.dim);
}

PredictorValues Predictor::build(graph::Graph& g, size_t rows, size_t output_rows) const {
  using graph::Elem;
  const auto n = static_cast<int64_t>(rows);
  const size_t dim = trunk_.config.dim;
  nn::Builder b(g);
  PredictorValues values;
  values.positions = g.input("positions", {Elem::kI32, {n}});
  values.tokens = g.input("tokens", {Elem::kI32, {n}});
  values.hidden = g.input("hidden", {Elem::kF32, {n, static_cast<int64_t>(dim)}});
  const graph::ValueId embedded = embedding_ ? graph::embedding(g, values.tokens, embedding_, "embed_tokens")
                                             : trunk_.build_embedding(b, values.tokens, values.positions);
  const graph::ValueId token = token_norm_.build(b, embedded), hidden = hidden_norm_.build(b, values.hidden);
  graph::ValueId x = join_.build(b, graph::join_columns(g, token, hidden, dim, dim, "eh"));
  x = body_->build_blocks(b, {x, {}}, values.positions, 0, 1);
  if (output_rows == 0) {
    g.mark_output(x);
    return values;
  }
  values.selected = g.input("selected", {Elem::kI32, {static_cast<int64_t>(output_rows)}});
  values.normed = head_norm_.build(b, graph::select_rows(g, x, values.selected, "selected_rows"));
  values.logits = head_.weight ? head_.build(b, values.normed) : trunk_.build_head(b, values.normed, {});
  g.mark_output(values.normed);
  g.mark_output(values.logits);
  return values;
}

std::unique_ptr<Predictor> load_predictor(const ModelConfig& config, WeightLoader& weights,
                                          const Network& trunk) {
  if (!why_not_predict(weights.file()).empty()) return nullptr;
  const auto* decoder = dynamic_cast<const Decoder*>(&trunk);
  BF_CHECK(decoder != nullptr && decoder->first() && decoder->last()) << "a predictor needs the whole model";
  return std::make_unique<Predictor>(config, weights, *decoder, architecture_of(weights.file()));
}

}  // namespace butterfly::model
