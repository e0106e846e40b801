// Huge pages for large buffers: at once, or later where loading should not wait for them.
//
// Weights on 2 MiB pages are read about 10 % faster than on 4 KiB pages. But a virtual machine that has given
// its free memory back to the host gets the first touch of a huge page at 4-5 ms instead of 0.2 (0.6 GB: 1.4
// s), and nothing tells before. So memory that is filled once and read for long is filled on small pages, and
// a background thread turns it into huge pages afterwards, a quarter of its time at work. Contents never
// change.
#pragma once
#include <chrono>
#include <cstddef>

namespace butterfly::huge_pages {

enum class When { kAtOnce, kLater };

enum class Policy {
  kAsked,  // as prepare() is asked; at once where the system cannot do it later (before Linux 6.1)
  kNow,    // always at once
  kLater,  // always in the background
  kOff,    // never
};

// The environment variable BUTTERFLY_HUGE_PAGES (now, later, off; anything else: as asked) chooses at start;
// this chooses for what is allocated from now on.
void choose(Policy policy);

// For fresh private memory that nobody uses yet: [data, data + bytes), `data` at a multiple of 2 MiB.
void prepare(std::byte* data, size_t bytes, When when);

// Before such memory is unmapped. Waits for the step at work there, about 5 ms at most.
void forget(const std::byte* data);

// Waits until no memory is left to turn; meanwhile the background thread does not rest. False at the
// deadline.
bool wait_settled(std::chrono::milliseconds deadline);

}  // namespace butterfly::huge_pages
