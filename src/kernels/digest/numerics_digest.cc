// Prints the fingerprint of every kernel under every target: "target hash kernel". Equal hashes, equal
// results.
#include <fmt/core.h>

#include "kernels/digest/digest_table.h"
#include "kernels/simd/target.h"

int main() {
  using namespace butterfly::kernels;
  for_each_target([](const std::string& target) {
    for (const DigestRow& row : digest_table()) {
      Digest digest;
      row.run(digest);
      fmt::print("{} {:016x} {}\n", target, digest.value(), row.name);
    }
  });
  return 0;
}
