// Machines that are not x86-64 have no tiles.
#include "kernels/simd/tile_support.h"

namespace butterfly::kernels {

bool has_int8_tiles() { return false; }

}  // namespace butterfly::kernels
