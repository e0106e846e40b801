// Whole models on NEON under qemu against this machine's targets: the logits of a prompt and of decoding, and
// losses and gradients of training steps, by fingerprint.
#include <gtest/gtest.h>

#include "graph/training_digest.h"
#include "kernels/simd/target.h"
#include "kernels/testing/neon_program.h"
#include "runtime/model_digest_table.h"

namespace butterfly::runtime {
namespace {

using kernels::testing::fingerprint_text;
using kernels::testing::Fingerprints;

// All rows under the current target.
Fingerprints native() {
  Fingerprints found;
  for (const ModelDigestRow& row : model_digest_table())
    found[row.name()] = fingerprint_text(model_digest(row));
  for (const kernels::DigestRow& row : graph::training_digest_table()) {
    kernels::Digest digest;
    row.run(digest);
    found[row.name] = fingerprint_text(digest.value());
  }
  return found;
}

TEST(ModelDigests, DifferWhereTheModelsDiffer) {
  Fingerprints by_hash;
  for (const auto& [name, hash] : native()) {
    const auto [other, fresh] = by_hash.emplace(hash, name);
    EXPECT_TRUE(fresh) << name << " has the fingerprint of " << other->second;
  }
}

TEST(ModelDigests, EveryTargetOfThisMachineAgrees) {
  const Fingerprints first = native();
  EXPECT_EQ(first.size(), model_digest_table().size() + graph::training_digest_table().size());
  kernels::for_each_target([&](const std::string& target) { EXPECT_EQ(native(), first) << target; });
}

TEST(NeonModels, GiveTheBitsOfThisMachine) {
  if (const std::string reason = kernels::testing::neon_why_not(); !reason.empty()) GTEST_SKIP() << reason;
  const kernels::testing::NeonRun neon = kernels::testing::run_for_neon("model_digest");
  ASSERT_EQ(neon.error, "");
  EXPECT_EQ(neon.found, native());
}

}  // namespace
}  // namespace butterfly::runtime
