// Keys on the command line, which every user of the machine can read there.
#pragma once

namespace butterfly::cli {

// Writes over the values of flags that hold secrets (--api-key), in place: from then on `ps` shows 'x'es. For
// the moment before there is no help but BUTTERFLY_API_KEY or --api-key-file.
void hide_secrets(int argc, char** argv);

}  // namespace butterfly::cli
