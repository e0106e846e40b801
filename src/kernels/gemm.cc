#include "kernels/gemm.h"

namespace butterfly::kernels {

void gemm(const Gemm& job, ThreadPool&) { ref::gemm(job); }
void gemm(const Gemm& job) { ref::gemm(job); }

}  // namespace butterfly::kernels
