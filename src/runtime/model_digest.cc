// Prints the fingerprint of each small model's logits and of each training step under every target: "target
// hash name". Equal hashes, equal bits.
#include <fmt/core.h>

#include <exception>

#include "graph/training_digest.h"
#include "kernels/simd/target.h"
#include "runtime/model_digest_table.h"

int main() {
  using namespace butterfly;
  try {
    kernels::for_each_target([](const std::string& target) {
      for (const runtime::ModelDigestRow& row : runtime::model_digest_table())
        fmt::print("{} {:016x} {}\n", target, runtime::model_digest(row), row.name());
      for (const kernels::DigestRow& row : graph::training_digest_table()) {
        kernels::Digest digest;
        row.run(digest);
        fmt::print("{} {:016x} {}\n", target, digest.value(), row.name);
      }
    });
  } catch (const std::exception& error) {
    fmt::print(stderr, "model_digest: {}\n", error.what());
    return 1;
  }
  return 0;
}
