// What a machine can do, measured and described: the planner's figures and what people want to see.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/node/node_spec.h"
#include "tensor/dtype.h"

namespace butterfly::cluster {

// What the kernels reach with weights of one type.
struct TypeRates {
  std::string type = {};                 // "Q4_0"
  ThreadedRate weight_bytes_per_s = {};  // one row, as in generation
  ThreadedRate operations_per_s = {};    // many rows, as in prompts
};

// Plain data; goes over the wire when a node joins and to disk between starts.
struct Capabilities {
  std::string cpu = {};     // as the processor names itself
  std::string target = {};  // instruction set of the kernels
  std::string int8_instruction = {};
  std::string program = {};  // version and revision that measured
  uint32_t numerics_id = 0;  // unequal ids do not work together

  uint32_t packages = 0;
  uint32_t numa_nodes = 0;
  uint32_t cores = 0;    // that this process may use
  uint32_t threads = 0;  // that will compute
  uint64_t l1d_bytes = 0, l2_bytes = 0, l3_bytes = 0;

  uint64_t ram_bytes = 0;        // of the machine
  uint64_t ram_limit_bytes = 0;  // this process may use: the machine's or its control group's

  ThreadedRate memory = {};  // bytes/s read from DRAM
  ThreadedRate f32 = {};     // flops/s
  ThreadedRate int8 = {};    // operations/s
  std::vector<TypeRates> kernels = {};
  double disk = 0;  // bytes/s read; 0: not known
  double cpu_share =
      1;               // of the time in which a quota lets the threads run; the rates above are of that time
  double burst_s = 0;  // that they run at once after a rest (cpu_share.h)
  int64_t measured_unix_s = 0;
};

// As the planner wants it, with the efficiencies of this type of weights where they were measured.
NodeSpec node_spec(const Capabilities& capabilities, const std::string& name, DType type, uint64_t ram_bytes);

}  // namespace butterfly::cluster
