// Machines that are not x86-64 have no tiles.
#include "base/check.h"
#include "kernels/amx/amx.h"

namespace butterfly::kernels::amx {

bool takes(DType, size_t) { return false; }
void matmul(DType dtype, const MatmulJob&) { BF_CHECK(false) << "no tiles for " << dtype_name(dtype); }
uint64_t run_int8(uint64_t) { return 0; }

}  // namespace butterfly::kernels::amx
