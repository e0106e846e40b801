// Huge pages for large buffers, without waiting for them at start.
//
// Weights on 2 MiB pages are read 10-15 % faster than on 4 KiB pages, but a virtual machine that has given
// its free memory back to the host gets the first touch of a huge page at 4-5 ms instead of 0.2 (0.6 GB: 1.4
// s). So fresh memory is tried: where huge pages are at hand it is made of them at once; where they are cold
// it is filled on small pages, and a background thread turns it into huge pages afterwards, a quarter of its
// time at work. Contents never change.
#pragma once
#include <chrono>
#include <cstddef>

namespace butterfly::huge_pages {

enum class Policy {
  kAuto,   // as described above
  kNow,    // always at once
  kLater,  // always in the background
  kOff,    // not asked for
};

// The environment variable BUTTERFLY_HUGE_PAGES (auto, now, later, off) chooses at start; this chooses for
// what is allocated from now on. An unknown word counts as auto.
void choose(Policy policy);

// For fresh private memory that nobody uses yet: [data, data + bytes), `data` at a multiple of 2 MiB, at
// least 4 MiB. May touch the first few pages.
void prepare(std::byte* data, size_t bytes);

// Before such memory is unmapped. Waits for the step at work there, about 5 ms at most.
void forget(const std::byte* data);

// Waits until no memory is left to turn; meanwhile the background thread does not rest. False at the
// deadline.
bool wait_settled(std::chrono::milliseconds deadline);

}  // namespace butterfly::huge_pages
