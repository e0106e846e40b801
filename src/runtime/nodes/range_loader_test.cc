#include "runtime/nodes/range_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/testing/member_samples.h"

namespace butterfly::runtime {
namespace {

// Plans can say it before anybody can run it: then the node says so, and nothing is computed with half a
// layer.
TEST(RangeLoader, APartOfALayerIsRefusedInWords) {
  cluster::Assignment work = cluster::testing::assignment(1);
  work.members.push_back({cluster::testing::node_id(3), "10.0.0.3:4711", {}});
  for (cluster::ShareRange& range : work.members[0].share.ranges) range = {0, 4, 8};
  for (cluster::ShareRange& range : work.members[1].share.ranges) range = {4, 8, 8};
  RangeLoader loader({});
  const std::atomic<bool> cancelled{false};
  for (const bool prepare : {true, false}) {
    try {
      if (prepare)
        loader.prepare(work, cancelled);
      else
        loader.load(work, cancelled);
      FAIL() << "it was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::kUnsupported);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("heads 0-4 of 8"));
    }
  }
}

}  // namespace
}  // namespace butterfly::runtime
