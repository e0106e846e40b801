#include "base/near_names.h"

#include <gtest/gtest.h>

namespace butterfly {
namespace {

TEST(NearNames, CountsWhatPeopleDoWrong) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("port", "port"), 0u);
  EXPECT_EQ(edit_distance("", "port"), 4u);
  EXPECT_EQ(edit_distance("prt", "port"), 1u);
  EXPECT_EQ(edit_distance("portt", "port"), 1u);
  EXPECT_EQ(edit_distance("pork", "port"), 1u);
  EXPECT_EQ(edit_distance("prot", "port"), 1u) << "two that changed places";
  EXPECT_EQ(edit_distance("optr", "port"), 2u);
  EXPECT_EQ(edit_distance("abc", "xyz"), 3u);
}

TEST(NearNames, SuggestsTheNearestOrNothing) {
  constexpr std::string_view kNames[] = {"host", "port", "parallel"};
  EXPECT_EQ(did_you_mean("prot", kNames), "; did you mean 'port'?");
  EXPECT_EQ(did_you_mean("paralell", kNames), "; did you mean 'parallel'?");
  EXPECT_EQ(did_you_mean("temperature", kNames), "");
}

}  // namespace
}  // namespace butterfly
