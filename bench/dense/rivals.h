// Libraries to race against, found at run time: nothing here is needed to build.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernels/gemm/gemm.h"

namespace butterfly::bench {

// A library that multiplies matrices. One process may hold several: each is opened privately.
class GemmRival {
 public:
  virtual ~GemmRival() = default;
  virtual std::string name() const = 0;
  virtual void set_threads(int threads) = 0;
  // Without an epilogue.
  virtual void run(const kernels::Gemm& job) = 0;
};

// oneDNN asks OpenMP for its threads.
void set_openmp_threads(int threads);

// Those installed: oneDNN, OpenBLAS and BLIS (the OpenMP builds, where Debian puts them).
std::vector<std::unique_ptr<GemmRival>> gemm_rivals();

}  // namespace butterfly::bench
