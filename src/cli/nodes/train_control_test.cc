// One run in a folder, and what others ask of it.
#include "cli/nodes/train_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "base/error.h"
#include "base/testing/temp_dir.h"

namespace butterfly::cli {
namespace {

using ::testing::HasSubstr;

RunControl::Wish wish_of(RunControl& control) {
  std::this_thread::sleep_for(std::chrono::milliseconds(110));  // it looks ten times a second
  return control.wish();
}

std::string refusal(const std::function<void()>& what) {
  try {
    what();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(TrainControl, WishesReachTheRun) {
  const butterfly::testing::TempDir dir;
  {
    RunControl run(dir / "out");
    EXPECT_EQ(run.wish(), RunControl::Wish::kNone);
    EXPECT_THAT(control_run(dir / "out", "pause"), HasSubstr("stands still"));
    EXPECT_EQ(wish_of(run), RunControl::Wish::kPause);
    control_run(dir / "out", "resume");
    EXPECT_EQ(wish_of(run), RunControl::Wish::kNone);
    control_run(dir / "out", "cancel");
    EXPECT_EQ(wish_of(run), RunControl::Wish::kCancel);
    EXPECT_THAT(refusal([&] { RunControl second(dir / "out"); }), HasSubstr("trains here"));
  }
  EXPECT_THAT(refusal([&] { control_run(dir / "out", "pause"); }), HasSubstr("no run goes on here"));
  EXPECT_THAT(refusal([&] { control_run(dir / "none", "pause"); }), HasSubstr("no run goes on here"));
  // What was asked of one run is not asked of the next.
  RunControl again(dir / "out");
  EXPECT_EQ(again.wish(), RunControl::Wish::kNone);
}

}  // namespace
}  // namespace butterfly::cli
