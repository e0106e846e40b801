// Tile products of Q4_K for up to 16 rows, where unpacking counts: nibbles become bytes and nothing more, and
// a product per 32 columns is scaled afterwards. Only for x86-64 sources.
//
// Weights are taken less 8: a sum over 32 columns is then within 32 * 8 * 127 = 32512, so that one vpdpwssd
// multiplies the 16 sums of a row by their scales and adds them up. 8 * scale * sum(activations) is added to
// the block: exact integers, in any order.
#pragma once
#include "kernels/amx/amx_side.h"

namespace butterfly::kernels::amx {

// The job of PackFormat::matmul for at most kTileRows rows. Scratch belongs to the calling thread and is
// kept.
void matmul_k_few(const MatmulJob& job);

}  // namespace butterfly::kernels::amx
