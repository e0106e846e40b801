// Long work that lets others of its process go first, in the midst of whatever it does.
#pragma once
#include <ctime>

namespace butterfly {

// Of one thread, made and used by it. Linux looks anew at who is to run when a thread wakes and at its ticks,
// 4 to 10 ms apart; a thread that wakes while it is owed nothing, or that a tick took from its CPU, waits for
// the next one however low the priority of what runs instead. A step of a small model takes a part of a
// millisecond. Between begin() and end() this thread asks who waits four times in a millisecond (SIGURG,
// whose handler yields; system calls are started again), so that its priority counts in slices of that
// length. Costs some 0.5 % of the thread. What cannot be had from the system is done without.
class GiveWay {
 public:
  GiveWay();
  ~GiveWay();
  GiveWay(const GiveWay&) = delete;
  GiveWay& operator=(const GiveWay&) = delete;

  void begin() { set(kEveryNs); }
  void end() { set(0); }

 private:
  static constexpr long kEveryNs = 250'000;
  void set(long every_ns);

  timer_t timer_{};
  bool made_ = false;
};

}  // namespace butterfly
