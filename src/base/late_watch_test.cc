#include "base/late_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace butterfly {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Stopped for 90 of every 100 ms: nine in ten messages wait, for 45 ms on average. Three of five whiles have
// to say so.
TEST(WaitFigureTest, IsTheMeanOverAllMoments) {
  WaitFigure figure;
  for (int whole = 0; whole < 3; ++whole) {
    for (int i = 0; i < 20; ++i) figure.add(milliseconds(90));
    EXPECT_NEAR(figure.end_whole(seconds(2)), whole < 2 ? 0 : 0.9 * 0.045, 1e-12);
  }
  for (int whole = 0; whole < 3; ++whole)
    EXPECT_NEAR(figure.end_whole(seconds(2)), whole < 2 ? 0.9 * 0.045 : 0, 1e-12);
}

TEST(WaitFigureTest, OneLongStopIsNoReason) {
  WaitFigure figure;
  for (int whole = 0; whole < 8; ++whole) {
    if (whole == 2 || whole == 3) figure.add(seconds(1));  // it reaches from one while into the next
    EXPECT_EQ(figure.end_whole(seconds(2)), 0);
  }
}

TEST(WaitFigureTest, LateThreadsAreNoStop) {
  WaitFigure figure;
  for (int whole = 0; whole < 6; ++whole) {
    for (int i = 0; i < 100; ++i) figure.add(milliseconds(19));
    EXPECT_EQ(figure.end_whole(seconds(2)), 0);
  }
}

// A process of its own that is stopped for 75 of every 100 ms.
TEST(LateWatchTest, AProcessThatIsStoppedAgainAndAgainSeesIt) {
  int answer[2];
  ASSERT_EQ(pipe(answer), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    double most = 0;
    {
      const LateWatch watch(milliseconds(200));
      for (int i = 0; i < 200 && most == 0; ++i) {
        std::this_thread::sleep_for(milliseconds(50));
        most = std::max(most, watch.wait_s());
      }
    }
    _exit(write(answer[1], &most, sizeof most) == sizeof most ? 0 : 1);
  }
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    kill(child, SIGSTOP);
    std::this_thread::sleep_for(milliseconds(75));
    kill(child, SIGCONT);
    std::this_thread::sleep_for(milliseconds(25));
  }
  double most = 0;
  EXPECT_EQ(read(answer[0], &most, sizeof most), static_cast<ssize_t>(sizeof most));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_GT(most, 0.01);
  close(answer[0]);
  close(answer[1]);
}

}  // namespace
}  // namespace butterfly
