// One step of a training run as bars over time: what each member did when.
#pragma once
#include <string>

#include "runtime/training/training_leader.h"

namespace butterfly::runtime {

// SVG text.
std::string step_picture(const StepTrace& trace);

}  // namespace butterfly::runtime
