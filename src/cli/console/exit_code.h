// What the program's exit status means, and which error leads to which. docs/errors.md is the user's copy of
// this.
#pragma once
#include "base/error.h"

namespace butterfly::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailure = 1,        // asked for something sensible, and it did not work: disk, memory, a peer
  kExitUsage = 2,          // bad input: flags, a file that is missing, damaged or of an unknown kind
  kExitInterrupted = 130,  // Ctrl-C, as shells report it
};

int exit_code_for(Errc code);

}  // namespace butterfly::cli
