#include "graph/ops.h"

namespace butterfly::graph {

extern const OpType kApplyOp, kAddBiasOp, kAddOp, kAddScaledOp, kCachedAttentionOp, kCausalAttentionGradOp,
    kCausalAttentionOp, kColumnSumOp, kCrossEntropyOp, kDropoutOp, kEmbeddingOp, kExpertMatmulOp,
    kGatherSlotsOp, kGegluGradOp, kGegluOp, kGeluGradOp, kGeluOp, kLayerNormGradOp, kLayerNormOp,
    kLinearCrossEntropyOp, kLinearDwOp, kLinearDxAddOp, kLinearDxOp, kLinearOp, kMatmulDxAddOp, kMatmulDxOp,
    kMatmulOp, kMoeCombineOp, kMoeRouteOp, kMseOp, kMulOp, kQuantizeRowsOp, kReluGradOp, kReluOp,
    kRmsNormGradOp, kRmsNormOp, kRopeTurnsBackOp, kRopeOp, kRopeTurnsOp, kScaleOp, kScatterRowsAddOp,
    kScatterRowsOp, kSelectRowsOp, kSiluGradOp, kSiluOp, kSoftCapGradOp, kSoftCapOp, kSwigluGradOp, kSwigluOp;

namespace {

constexpr const OpType* kOps[] = {
    &kAddBiasOp,
    &kApplyOp,
    &kAddOp,
    &kAddScaledOp,
    &kCachedAttentionOp,
    &kCausalAttentionGradOp,
    &kCausalAttentionOp,
    &kColumnSumOp,
    &kCrossEntropyOp,
    &kDropoutOp,
    &kEmbeddingOp,
    &kExpertMatmulOp,
    &kGatherSlotsOp,
    &kGegluGradOp,
    &kGegluOp,
    &kGeluGradOp,
    &kGeluOp,
    &kLayerNormGradOp,
    &kLayerNormOp,
    &kLinearCrossEntropyOp,
    &kLinearDwOp,
    &kLinearDxAddOp,
    &kLinearDxOp,
    &kLinearOp,
    &kMatmulDxAddOp,
    &kMatmulDxOp,
    &kMatmulOp,
    &kMoeCombineOp,
    &kMoeRouteOp,
    &kMseOp,
    &kMulOp,
    &kQuantizeRowsOp,
    &kReluGradOp,
    &kReluOp,
    &kRmsNormGradOp,
    &kRmsNormOp,
    &kRopeTurnsBackOp,
    &kRopeOp,
    &kRopeTurnsOp,
    &kScaleOp,
    &kScatterRowsAddOp,
    &kScatterRowsOp,
    &kSelectRowsOp,
    &kSiluGradOp,
    &kSiluOp,
    &kSoftCapGradOp,
    &kSoftCapOp,
    &kSwigluGradOp,
    &kSwigluOp,
};

}  // namespace

std::span<const OpType* const> op_table() { return kOps; }

}  // namespace butterfly::graph
