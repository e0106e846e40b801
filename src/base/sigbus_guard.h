// Turns SIGBUS on a mapped file (truncated, or the disk failed) into an Error. The machinery behind
// MappedFile.
#pragma once
#include <cstddef>

#include "base/function_ref.h"

namespace butterfly::sigbus {

// Mappings alive at once. The signal handler walks a table of this size, which it cannot allocate or lock.
inline constexpr size_t kMappingsMax = 1024;

// Makes the range known to the handler. `path` is copied (its last 255 bytes). False when the table is full.
// The first call installs the handler for the whole process; what was installed before gets all foreign
// addresses.
bool add_mapping(const void* begin, size_t size, const char* path);
void remove_mapping(const void* begin);

// Runs fn. If this thread touches a vanished page of a known mapping meanwhile, fn is left at once and Error
// kIo is thrown that names the file. Guards nest: the innermost throws. About 20 ns.
//
// Leaving means a jump: destructors between the fault and guard() do not run. So fn should hold no lock while
// it reads the mapping; memory it owns at that moment leaks.
void guard(FunctionRef<void()> fn);

}  // namespace butterfly::sigbus
