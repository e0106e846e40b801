#include "runtime/planning/group_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace butterfly::runtime {
namespace {

using ::testing::HasSubstr;

TEST(GroupChoice, IsOffAutoOrANumber) {
  EXPECT_EQ(parse_groups("--groups", "off"), GroupChoice{});
  EXPECT_EQ(parse_groups("--groups", "auto"), (GroupChoice{4, false}));
  EXPECT_EQ(parse_groups("--groups", "3"), (GroupChoice{3, true}));
  for (const char* wrong : {"", "1", "9", "on", "2x", "-2"}) {
    try {
      parse_groups("--groups", wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("expected off, auto or a number from 2 to 8"));
    }
  }
}

}  // namespace
}  // namespace butterfly::runtime
