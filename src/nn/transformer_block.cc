#include "nn/transformer_block.h"

namespace butterfly::nn {
namespace {

ValueId normed(Builder& b, const Norm& norm, ValueId x) { return norm ? norm.build(b, x) : x; }

}  // namespace

const Linear& TransformerBlock::mixer_out() const {
  return delta_net         ? delta_net->out
         : short_conv      ? short_conv->out
         : selective_mixer ? selective_mixer->out
         : latent          ? latent->out
                           : attention.out;
}

const std::string& TransformerBlock::mixer_name() const {
  return delta_net         ? delta_net->name
         : short_conv      ? short_conv->name
         : selective_mixer ? selective_mixer->name
         : latent          ? latent->name
                           : attention.name;
}

const std::string& TransformerBlock::mlp_name() const {
  return std::visit([](const auto& part) -> const std::string& { return part.name; }, mlp);
}

ValueId TransformerBlock::build_mixer(Builder& b, ValueId x, const Rotations& rotations) const {
  if (delta_net) return delta_net->build(b, x);
  if (short_conv) return short_conv->build(b, x);
  if (selective_mixer) return selective_mixer->build(b, x);
  if (latent) return latent->build(b, x, rotations);
  return attention.build(b, x, rotations);
}

ValueId TransformerBlock::build_mlp(Builder& b, ValueId x) const {
  const ValueId said =
      std::visit([&](const auto& part) { return part.build(b, normed(b, mlp_norm, x)); }, mlp);
  if (!beside) return said;
  const ValueId experts = beside->moe.build(b, beside->norm.build(b, x), beside->router_norm.build(b, x));
  return graph::add(b.graph(), beside->dense_post_norm.build(b, said), beside->post_norm.build(b, experts),
                    mlp_name() + ".beside");
}

ValueId TransformerBlock::build(Builder& b, ValueId x, const Rotations& rotations, ValueId input) const {
  Graph& g = b.graph();
  const auto added = [&](ValueId to, ValueId delta, const std::string& part) {
    delta = b.dropout(delta, part);
    const std::string name = part + ".residual";
    return residual_scale == 1 ? graph::add(g, delta, to, name)
                               : graph::add_scaled(g, to, delta, residual_scale, name);
  };
  if (!mixer_name().empty()) {
    const ValueId delta = build_mixer(b, normed(b, attention_norm, x), rotations);
    x = added(x, normed(b, attention_post_norm, delta), mixer_name());
  }
  if (!mlp_name().empty()) x = added(x, normed(b, mlp_post_norm, build_mlp(b, x)), mlp_name());
  if (layer_input) {
    const std::string& name = layer_input->name;
    const ValueId opened =
        graph::mul(g, graph::gelu(g, layer_input->gate.build(b, x), name + ".gelu"), input, name + ".gate");
    x = graph::add(g, layer_input->norm.build(b, layer_input->out.build(b, opened)), x, name + ".residual");
  }
  return output_scale == 1 ? x : graph::scale(g, x, output_scale, mlp_name() + ".output_scale");
}

}  // namespace butterfly::nn
