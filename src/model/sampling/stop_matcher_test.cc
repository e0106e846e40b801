#include "model/sampling/stop_matcher.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace butterfly::model {
namespace {

TEST(StopMatcher, HoldsBackWhatMayBecomeAStop) {
  StopMatcher stop({"</s>"});
  EXPECT_EQ(stop.push("hello <"), "hello ");
  EXPECT_EQ(stop.push("/"), "");
  EXPECT_EQ(stop.push("p>"), "</p>");
  EXPECT_EQ(stop.push("a</"), "a");
  EXPECT_FALSE(stop.stopped());
  EXPECT_EQ(stop.push("s> more"), "");
  EXPECT_TRUE(stop.stopped());
  EXPECT_EQ(stop.stop(), "</s>");
  EXPECT_EQ(stop.push("again"), "");
  EXPECT_EQ(stop.flush(), "");
}

TEST(StopMatcher, FlushGivesBackThePart) {
  StopMatcher stop({"\n\nUser:", "\n\n\n"});
  EXPECT_EQ(stop.push("x\n\n"), "x");
  EXPECT_EQ(stop.flush(), "\n\n");
}

TEST(StopMatcher, StopsThatOverlapThemselves) {
  StopMatcher stop({"aab"});
  EXPECT_EQ(stop.push("aaa"), "a");
  EXPECT_EQ(stop.push("b"), "");
  EXPECT_TRUE(stop.stopped());
}

TEST(StopMatcher, TheFirstToBeCompleteCounts) {
  StopMatcher stop({"abcd", "bc"});
  EXPECT_EQ(stop.push("xab"), "x");
  EXPECT_EQ(stop.push("cd"), "a");
  EXPECT_EQ(stop.stop(), "bc");
  StopMatcher same_byte({"b", "ab"});
  EXPECT_EQ(same_byte.push("xab"), "x");
  EXPECT_EQ(same_byte.stop(), "ab");
}

TEST(StopMatcher, WithoutStopsEverythingPasses) {
  StopMatcher stop({""});
  EXPECT_EQ(stop.push("abc"), "abc");
  EXPECT_EQ(stop.flush(), "");
}

RC_GTEST_PROP(StopMatcher, EqualsASearchInTheWholeText, ()) {
  const auto letters = rc::gen::element('a', 'b', 'c');
  const auto stops = *rc::gen::container<std::vector<std::string>>(
      rc::gen::nonEmpty(rc::gen::container<std::string>(letters)));
  const auto pieces = *rc::gen::container<std::vector<std::string>>(rc::gen::container<std::string>(letters));
  StopMatcher matcher(stops);
  std::string shown, text;
  for (const std::string& piece : pieces) {
    text += piece;
    shown += matcher.push(piece);
    for (const std::string& stop : stops) RC_ASSERT(shown.find(stop) == std::string::npos);
  }
  shown += matcher.flush();
  // Where the first stop string ends, and of those that end there the earliest begin.
  size_t end = std::string::npos, begin = text.size();
  for (const std::string& stop : stops) {
    const size_t at = text.find(stop);
    if (at == std::string::npos) continue;
    if (at + stop.size() < end || (at + stop.size() == end && at < begin)) {
      end = at + stop.size();
      begin = at;
    }
  }
  RC_ASSERT(matcher.stopped() == (end != std::string::npos));
  RC_ASSERT(shown == text.substr(0, begin));
}

}  // namespace
}  // namespace butterfly::model
