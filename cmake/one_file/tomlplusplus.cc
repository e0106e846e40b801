// toml++ as part of the program: Debian has it as a shared library, whose headers bring the implementation.
#define TOML_IMPLEMENTATION
#include <toml++/toml.h>
