// Whether this machine has matrix tiles (AMX-INT8), which only some x86-64 CPUs do.
#pragma once

namespace butterfly::kernels {

// The CPU has the tiles and the system lets this process use them. Finds out once; any thread.
bool has_int8_tiles();

}  // namespace butterfly::kernels
