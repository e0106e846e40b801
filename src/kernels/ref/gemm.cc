#include "kernels/gemm/gemm.h"

#include <cmath>

#include "kernels/ref/epilogue.h"

namespace butterfly::kernels::ref {

void gemm(const Gemm& job) {
  for (size_t i = 0; i < job.m; ++i)
    for (size_t j = 0; j < job.n; ++j) {
      const size_t at = i * job.c_stride + j;
      float acc = job.accumulate ? job.c[at] : 0.0f;
      for (size_t p = 0; p < job.k; ++p) acc = std::fma(job.a.at(i, p), job.b.at(p, j), acc);
      finish(job.epilogue, acc, j, at, job.c);
    }
}

}  // namespace butterfly::kernels::ref
