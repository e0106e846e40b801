// The program `butterfly`. All of it is in program.cc, where tests can reach it.
#include "cli/console/hide_secrets.h"
#include "cli/console/interrupt.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  butterfly::cli::install_interrupt_handler();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  butterfly::cli::hide_secrets(argc, argv);
  return butterfly::cli::run_program(arguments);
}
