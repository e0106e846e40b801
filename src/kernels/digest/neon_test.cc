// Every kernel on NEON under qemu against this machine's targets, by fingerprint.
#include <gtest/gtest.h>

#include <string>

#include "kernels/digest/digest_table.h"
#include "kernels/simd/target.h"
#include "kernels/testing/neon_program.h"

namespace butterfly::kernels {
namespace {

using testing::Fingerprints;

Fingerprints native() {
  Fingerprints found;
  for (const DigestRow& row : digest_table()) {
    Digest digest;
    row.run(digest);
    found[row.name] = testing::fingerprint_text(digest.value());
  }
  return found;
}

TEST(Digests, EveryTargetOfThisMachineAgrees) {
  const Fingerprints first = native();
  EXPECT_EQ(first.size(), digest_table().size());
  for_each_target([&](const std::string& target) {
    const Fingerprints here = native();
    for (const auto& [kernel, hash] : first) EXPECT_EQ(here.at(kernel), hash) << kernel << " on " << target;
  });
}

TEST(Digests, OneBitShows) {
  Digest a, b;
  a.add(1.0f);
  b.add(std::nextafter(1.0f, 2.0f));
  EXPECT_NE(a.value(), b.value());
  a = {}, b = {};
  a.add(0.0f), a.add(1.0f);
  b.add(1.0f), b.add(0.0f);
  EXPECT_NE(a.value(), b.value()) << "order counts";
}

TEST(Neon, EveryKernelGivesTheBitsOfThisMachine) {
  if (const std::string reason = testing::neon_why_not(); !reason.empty()) GTEST_SKIP() << reason;
  const testing::NeonRun neon = testing::run_for_neon("numerics_digest");
  ASSERT_EQ(neon.error, "");
  EXPECT_EQ(neon.found.size(), digest_table().size());
  for_each_target([&](const std::string& target) {
    for (const auto& [kernel, hash] : native()) {
      const auto found = neon.found.find(kernel);
      ASSERT_NE(found, neon.found.end()) << kernel << " is missing";
      EXPECT_EQ(found->second, hash) << kernel << ": NEON against " << target;
    }
  });
}

}  // namespace
}  // namespace butterfly::kernels
