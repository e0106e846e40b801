// plain_loops.h compiled with all the compiler can do.
#define BF_PLAIN_NAMESPACE auto_loops
#include "kernels/elementwise/plain_loops-inl.h"
