// A memory plan for people: a table of its classes, and a drawing of who lies where and when.
#pragma once
#include <string>
#include <string_view>

#include "graph/memory_plan.h"

namespace butterfly::graph {

// One line per class that is used (buffers, their sum, LOAD, pool, pool / LOAD), and the largest buffers at
// the fullest step.
std::string memory_report(const Graph& graph, const MemoryPlan& plan);

// An SVG: above, live bytes at each step against LOAD and pool; below, every buffer as a rectangle of steps
// and addresses, coloured by the operation that fills it.
std::string memory_picture(const Graph& graph, const MemoryPlan& plan, std::string_view title);

}  // namespace butterfly::graph
