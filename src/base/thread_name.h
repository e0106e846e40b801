// Names that top -H, gdb and profilers show.
#pragma once
#include <sys/prctl.h>

namespace butterfly {

// Of the calling thread: 15 characters are kept. The first thread's name is the program's: leave it.
inline void name_thread(const char* name) { ::prctl(PR_SET_NAME, name); }

}  // namespace butterfly
