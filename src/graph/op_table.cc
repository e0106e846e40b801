#include "graph/ops.h"

namespace butterfly::graph {

extern const OpType kAddOp, kAddBiasOp, kCachedAttentionOp, kEmbeddingOp, kMatmulOp, kQuantizeRowsOp,
    kRmsNormOp, kRopeOp, kRopeTurnsOp, kSelectRowsOp, kSwigluOp;

namespace {

constexpr const OpType* kOps[] = {
    &kAddOp,     &kAddBiasOp, &kCachedAttentionOp, &kEmbeddingOp,  &kMatmulOp, &kQuantizeRowsOp,
    &kRmsNormOp, &kRopeOp,    &kRopeTurnsOp,       &kSelectRowsOp, &kSwigluOp,
};

}  // namespace

std::span<const OpType* const> op_table() { return kOps; }

}  // namespace butterfly::graph
