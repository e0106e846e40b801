// The program `butterfly`. All of it is in program.cc, where tests can reach it.
#include "cli/console/interrupt.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  butterfly::cli::install_interrupt_handler();
  return butterfly::cli::run_program({argv + 1, argv + argc});
}
