#include "cli/console/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "base/error.h"

namespace butterfly::cli {
namespace {

// Whether a process waits for something, as the kernel tells: the letter behind its name in brackets.
bool sleeps(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text.substr(name_end, 3) == ") S";
}

// The handler and its flag are for the whole process, so each case runs in a child.

TEST(InterruptDeathTest, TheFirstSetsTheFlag) {
  EXPECT_EXIT(
      {
        install_interrupt_handler();
        const bool before = interrupted();
        raise(SIGINT);
        _exit(!before && interrupted() ? 7 : 8);
      },
      testing::ExitedWithCode(7), "");
}

TEST(InterruptDeathTest, TheSecondEndsTheProgram) {
  EXPECT_EXIT(
      {
        install_interrupt_handler();
        raise(SIGINT);
        raise(SIGINT);
        _exit(7);
      },
      testing::ExitedWithCode(130), "");
}

TEST(InterruptDeathTest, TerminateCountsOnlyWhereSomethingIsSaved) {
  EXPECT_EXIT(
      {
        install_interrupt_handler();
        raise(SIGTERM);
        _exit(7);
      },
      testing::KilledBySignal(SIGTERM), "");
  EXPECT_EXIT(
      {
        stop_cleanly_on_terminate();
        raise(SIGTERM);
        _exit(interrupted() ? 7 : 8);
      },
      testing::ExitedWithCode(7), "");
}

TEST(InterruptDeathTest, ThrowsCancelledOnlyWhenInterrupted) {
  EXPECT_EXIT(
      {
        install_interrupt_handler();
        throw_if_interrupted();
        raise(SIGINT);
        try {
          throw_if_interrupted();
        } catch (const Error& error) {
          _exit(error.code() == Errc::kCancelled ? 7 : 8);
        }
        _exit(9);
      },
      testing::ExitedWithCode(7), "");
}

TEST(InterruptDeathTest, TheFirstMayBeAnnounced) {
  EXPECT_EXIT(
      {
        install_interrupt_handler();
        announce_interrupt("stopping soon\n");
        raise(SIGINT);
        _exit(interrupted() ? 7 : 8);
      },
      testing::ExitedWithCode(7), "^stopping soon\n$");
}

TEST(InterruptDeathTest, ABlockingReadComesBack) {
  EXPECT_EXIT(
      {
        install_interrupt_handler();
        int ends[2];
        if (pipe(ends) != 0) _exit(9);
        const pid_t reader = getpid();
        if (fork() == 0) {
          while (!sleeps(reader)) usleep(1000);  // a signal before the read would leave it waiting
          kill(reader, SIGINT);
          _exit(0);
        }
        char byte;
        const ssize_t got = read(ends[0], &byte, 1);
        _exit(got == -1 && interrupted() ? 7 : 8);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace butterfly::cli
