// One step of a training run as bars over time: what each member did when.
#pragma once
#include <string>

#include "runtime/training/step_tracer.h"

namespace butterfly::runtime {

// SVG text.
std::string step_picture(const StepTrace& trace);

}  // namespace butterfly::runtime
