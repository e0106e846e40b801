// What the C library's heap keeps of memory that is free.
#pragma once

namespace butterfly {

// For a process that lives long and whose threads come and go: what was large goes back to the system when it
// is free, and there are as many arenas as CPUs. By itself glibc raises its bounds with what it sees, has
// eight arenas for each CPU, and keeps up to 64 MiB in each: threads that each load a part of a model once
// leave its size behind as often as there are arenas. Before other threads are started; for the whole
// process.
void bound_heap();

// Pages that are free go back to the system, also between others that are not. Takes as long as it takes to
// look at all that is free, and others that allocate wait for it: where steps stand still anyway.
void return_free_heap();

}  // namespace butterfly
