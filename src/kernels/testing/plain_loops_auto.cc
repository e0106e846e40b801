// plain_loops.h compiled with all the compiler can do.
#define BF_PLAIN_NAMESPACE auto_loops
#include "kernels/testing/plain_loops-inl.h"
