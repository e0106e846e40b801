// A mixture of experts: a router sends each row to a few of many feed-forward parts and weighs what they say.
// graph/ops/moe_route.cc says which and in which order.
#pragma once
#include <optional>

#include "nn/mlp.h"

namespace butterfly::nn {

using graph::ExpertParameter;

// Adds scale * B (A x) with the matrices of the expert that a row goes to: plain floats, which may learn, of
// those experts that are here.
struct ExpertLowRank {
  Parameter a;  // [experts, rank, in]
  Parameter b;  // [experts, out, rank]
  float scale = 1;
};

struct Moe {
  Linear router;                   // [experts, dim]
  ExpertParameter gate, up, down;  // per expert [ff, dim], [ff, dim], [dim, ff]; kSquaredRelu: without gates
  // Beside those, in order; `gate_up`: of both at once, gates first.
  std::vector<ExpertLowRank> gate_adapters = {}, up_adapters = {}, gate_up_adapters = {}, down_adapters = {};
  // Of those that rows name (Linear::site).
  size_t gate_site = kNoSite, up_site = kNoSite, gate_up_site = kNoSite, down_site = kNoSite;
  graph::RouteOptions route;      // how experts are chosen and weighed
  Parameter selection_bias;       // [experts]: added for the choice only; may be empty
  Parameter expert_scale;         // [experts]: what each one's outputs are multiplied by; may be empty
  Linear latent_down, latent_up;  // what experts read and say goes through fewer columns; may be empty
  std::optional<Mlp> shared;      // sees every row
  Linear shared_gate;             // [1, dim]: its outputs times the sigmoid of this; may be empty
  Activation activation = Activation::kSilu;
  std::string name;
  // Where a group shares the layer: experts by member, and who this one is. `gate`, `up` and `down` then have
  // those of this member, perhaps none; router and gates are everywhere. Empty: all experts are here.
  std::vector<graph::MemberRange> owners = {};
  size_t self = 0;

  ValueId build(Builder& b, ValueId x) const { return build(b, x, x); }
  // The router reads rows of its own.
  ValueId build(Builder& b, ValueId x, ValueId routed_by) const;

 private:
  // `adapters`: those that the rows at their places name.
  std::vector<ValueId> build_up(Builder& b, ValueId x, const graph::MoeRoute& to,
                                const graph::RowAdapters& adapters) const;
  // What the experts say at their places; not valid if none are here.
  ValueId build_experts(Builder& b, ValueId x, const graph::MoeRoute& to) const;
};

}  // namespace butterfly::nn
