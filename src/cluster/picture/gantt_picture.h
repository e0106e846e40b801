// What every stage did when: steps of the simulator as bars over time.
#pragma once
#include <string>

#include "cluster/sim/simulator.h"

namespace butterfly::cluster {

// SVG text of report.intervals. A batch keeps its colour from stage to stage.
std::string gantt_picture(const SimCluster& cluster, const SimReport& report, const std::string& title);

}  // namespace butterfly::cluster
