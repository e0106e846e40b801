// Plans and simulations as tables for people and as JSON; and the simulator's input back from that JSON.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "cluster/sim/simulator.h"
#include "runtime/planning/plan_model.h"

namespace butterfly::cli {

void print_plan(const runtime::ModelPlan& plan);
nlohmann::ordered_json plan_json(const runtime::ModelPlan& plan);

// A plan as `plan --json` wrote it.
struct PlanFile {
  std::string model;
  std::string strategy;
  size_t batch = 1;
  size_t streams = 1;
  cluster::SimCluster cluster;
};
// The plan of this strategy, or the first if it is empty. Throws Error kCorrupt naming the file and what is
// missing.
PlanFile read_plan_file(const std::string& path, const std::string& strategy);

void print_simulation(const PlanFile& plan, const cluster::SimReport& report, double seconds);
nlohmann::ordered_json simulation_json(const PlanFile& plan, const cluster::SimReport& report);

// Throws Error kIo.
void write_text_file(const std::string& path, const std::string& text);

}  // namespace butterfly::cli
