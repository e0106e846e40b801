// Which threads go first where there are fewer CPUs than threads.
#pragma once

namespace butterfly {

// The calling thread, and those it starts from now on, run as soon as they wake, before others of the same
// priority that are in the midst of something long. Linux lets what runs go on for its slice and looks again
// at the next tick, 4 to 10 ms later; a thread with a shorter slice need not wait for that (EEVDF, from 6.12
// on; older ones do not look at it). It gets no more of the CPU for it.
void wake_soon();

// The calling thread comes after others, by `nice` (1 to 19), and does not wake soon. False: the system
// refused, and its priority stays as it was.
bool come_after_others(int nice);

}  // namespace butterfly
