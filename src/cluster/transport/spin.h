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

// How many threads spin at this moment.
int spinning_threads();

}  // namespace butterfly::cluster
