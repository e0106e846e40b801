#include "graph/ops.h"

namespace butterfly::graph {

extern const OpType kAddOp, kAddBiasOp, kAddScaledOp, kCachedAttentionOp, kEmbeddingOp, kExpertMatmulOp,
    kGatherSlotsOp, kGegluOp, kGeluOp, kLayerNormOp, kMatmulOp, kMoeCombineOp, kMoeRouteOp, kQuantizeRowsOp,
    kRmsNormOp, kRopeOp, kRopeTurnsOp, kScaleOp, kSelectRowsOp, kSoftCapOp, kSwigluOp;

namespace {

constexpr const OpType* kOps[] = {
    &kAddOp,       &kAddBiasOp,      &kAddScaledOp,   &kCachedAttentionOp,
    &kEmbeddingOp, &kExpertMatmulOp, &kGatherSlotsOp, &kGegluOp,
    &kGeluOp,      &kLayerNormOp,    &kMatmulOp,      &kMoeCombineOp,
    &kMoeRouteOp,  &kQuantizeRowsOp, &kRmsNormOp,     &kRopeOp,
    &kRopeTurnsOp, &kScaleOp,        &kSelectRowsOp,  &kSoftCapOp,
    &kSwigluOp,
};

}  // namespace

std::span<const OpType* const> op_table() { return kOps; }

}  // namespace butterfly::graph
