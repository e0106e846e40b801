#include "runtime/engine/suspects.h"

#include <gtest/gtest.h>

namespace butterfly::runtime {
namespace {

constexpr RequestId kA{1}, kB{2}, kC{3};

TEST(Suspects, OneIsGivenUpOnlyAfterItWasLostAlone) {
  Suspects suspects;
  const Suspects::UnderWay both[] = {{kA, 10}, {kB, 20}, {kA, 14}};
  EXPECT_FALSE(suspects.lost(both));
  EXPECT_FALSE(suspects.alone()) << "once is a machine's";
  EXPECT_FALSE(suspects.lost(both));
  EXPECT_EQ(suspects.alone(), kA);
  const Suspects::UnderWay first[] = {{kA, 3}};
  EXPECT_EQ(suspects.lost(first), kA);
  EXPECT_EQ(suspects.alone(), kB);
  EXPECT_FALSE(suspects.passed(kB, 19));
  EXPECT_TRUE(suspects.passed(kB, 20));
  EXPECT_FALSE(suspects.alone());
}

TEST(Suspects, WhoGetsPastThePlaceIsInnocentHoweverOftenMachinesFail) {
  Suspects suspects;
  for (size_t position = 5; position < 500; position += 5) {
    const Suspects::UnderWay one[] = {{kC, position}};
    EXPECT_FALSE(suspects.lost(one)) << position;
    suspects.passed(kC, position);
  }
  // Not past it: three losses are enough, also for the only request there is.
  const Suspects::UnderWay one[] = {{kC, 1000}};
  EXPECT_FALSE(suspects.lost(one));
  suspects.passed(kC, 999);
  EXPECT_FALSE(suspects.lost(one));
  suspects.passed(kC, 999);
  EXPECT_EQ(suspects.lost(one), kC);
  EXPECT_FALSE(suspects.forget(kC));
}

}  // namespace
}  // namespace butterfly::runtime
