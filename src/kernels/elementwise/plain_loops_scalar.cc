// plain_loops.h compiled without vectorisation.
#define BF_PLAIN_NAMESPACE scalar_loops
#include "kernels/elementwise/plain_loops-inl.h"
