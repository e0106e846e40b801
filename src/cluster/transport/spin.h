// Looking at a socket without sleeping, for the short time in which an answer often comes.
#pragma once
#include "base/clock.h"

namespace butterfly::cluster {

// Waking a sleeping thread costs more than a message over loopback, so receivers look for a moment before
// they sleep. True as soon as there is something to read, or an end or an error to see; false after `limit`.
//
// Returns false at once when as many threads of this process spin already as leave only one of its CPUs for
// others: whoever computes goes first. With one CPU nobody spins.
bool spin_until_readable(int fd, Duration limit);

// Held while a thread spins, however it looks: one of the places of this process, of which there are as many
// as CPUs less one.
class SpinPlace {
 public:
  SpinPlace();
  ~SpinPlace();
  SpinPlace(const SpinPlace&) = delete;
  SpinPlace& operator=(const SpinPlace&) = delete;
  // False: all are taken, and the thread should sleep.
  bool have() const { return have_; }

 private:
  const bool have_;
};

// How many threads spin at this moment.
int spinning_threads();

}  // namespace butterfly::cluster
