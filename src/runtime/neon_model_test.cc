// Whole models on NEON under qemu against this machine's targets: the logits of a prompt and of decoding, by
// fingerprint.
#include <gtest/gtest.h>

#include "kernels/simd/target.h"
#include "kernels/testing/neon_program.h"
#include "runtime/model_digest_table.h"

namespace butterfly::runtime {
namespace {

using kernels::testing::fingerprint_text;

TEST(ModelDigests, DifferWhereTheModelsDiffer) {
  kernels::testing::Fingerprints by_hash;
  for (const ModelDigestRow& row : model_digest_table()) {
    const auto [other, fresh] = by_hash.emplace(fingerprint_text(model_digest(row)), row.name());
    EXPECT_TRUE(fresh) << row.name() << " has the fingerprint of " << other->second;
  }
}

TEST(NeonModels, GiveTheBitsOfThisMachine) {
  if (const std::string reason = kernels::testing::neon_why_not(); !reason.empty()) GTEST_SKIP() << reason;
  const kernels::testing::NeonRun neon = kernels::testing::run_for_neon("model_digest");
  ASSERT_EQ(neon.error, "");
  EXPECT_EQ(neon.found.size(), model_digest_table().size());
  kernels::for_each_target([&](const std::string& target) {
    for (const ModelDigestRow& row : model_digest_table()) {
      const auto found = neon.found.find(row.name());
      ASSERT_NE(found, neon.found.end()) << row.name() << " is missing";
      EXPECT_EQ(found->second, fingerprint_text(model_digest(row)))
          << row.name() << ": NEON against " << target;
    }
  });
}

}  // namespace
}  // namespace butterfly::runtime
