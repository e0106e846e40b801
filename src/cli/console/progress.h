// A progress bar with rate and time left, on stderr, for people only: silent when stderr is not a terminal.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace butterfly::cli {

enum class ProgressUnit { kCount, kBytes };

// The text of the bar after `seconds`, at most `width` columns:
//   "loading  [#########-----------]  45%  1.2 GiB/s  ETA 3 s"
// A total of 0 means unknown: no bar, no time left.
std::string progress_line(std::string_view label, uint64_t done, uint64_t total, double seconds,
                          ProgressUnit unit, size_t width);

// "3 s", "12 min 05 s": whole seconds, rounded up.
std::string time_left_text(double seconds);

// Shows how far a long piece of work is. Used by one thread; update() costs a clock read and draws at most
// ten times a second. The line is erased when the Progress dies, also when an exception ends the work.
class Progress {
 public:
  Progress(std::string label, uint64_t total, ProgressUnit unit = ProgressUnit::kCount);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(uint64_t done);
  void set_label(std::string label) { label_ = std::move(label); }
  // The same where the total is known only now.
  void update(uint64_t done, uint64_t total) {
    total_ = total;
    update(done);
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  uint64_t total_;
  ProgressUnit unit_;
  bool visible_;
  bool drawn_ = false;
  Clock::time_point started_;
  Clock::time_point next_draw_;
};

}  // namespace butterfly::cli
