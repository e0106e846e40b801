// dense_race: our dense kernels against the libraries that are installed, by turns, in one process.
#include <CLI/CLI.hpp>
#include <cstdlib>

#include "kernels/simd/target.h"
#include "races.h"

int main(int argc, char** argv) {
  using namespace butterfly;
  CLI::App app("Races dense kernels against installed libraries; prints medians of rounds.");
  std::string race = "gemm", target;
  bench::RaceOptions options;
  app.add_option("race", race, "gemm, conv or memory");
  app.add_option("--threads", options.threads, "thread counts");
  app.add_option("--rounds", options.rounds, "rounds; the median counts");
  app.add_option("--seconds", options.seconds, "per runner and round");
  app.add_option("--only", options.only, "shapes whose name holds this text");
  app.add_flag("--cpu-time", options.cpu_time,
               "processor time instead of the clock: for 1 thread on a busy machine");
  app.add_option("--target", target, "instruction set of our kernels");
  CLI11_PARSE(app, argc, argv);
  kernels::force_target(target);
  // In virtual machines these libraries do not always know the processor, and fall back to old instructions.
  if (kernels::target_name() == "AMX" || kernels::target_name() == "AVX3_DL") {
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
    setenv("BLIS_ARCH_TYPE", "0", 0);  // skx
  }
  if (race == "gemm") bench::gemm_race(options);
  if (race == "conv") bench::conv_race(options);
  if (race == "memory") bench::memory_race(options);
}
