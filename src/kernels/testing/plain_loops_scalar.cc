// plain_loops.h compiled without vectorisation.
#define BF_PLAIN_NAMESPACE scalar_loops
#include "kernels/testing/plain_loops-inl.h"
