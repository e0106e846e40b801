// Nodes and messages with plausible contents, for tests of membership.
#pragma once
#include <fmt/format.h>

#include "cluster/member/control_message.h"

namespace butterfly::cluster::testing {

inline NodeId node_id(int number) { return {fmt::format("{:064x}", number), fmt::format("node-{}", number)}; }

inline Capabilities capabilities(uint64_t ram_bytes = uint64_t{8} << 30) {
  Capabilities c;
  c.cpu = "a CPU";
  c.target = "AVX2";
  c.int8_instruction = "vpmaddubsw";
  c.program = "0.1.0 (abc)";
  c.numerics_id = 1;
  c.packages = c.numa_nodes = 1;
  c.cores = c.threads = 4;
  c.l1d_bytes = 32 << 10;
  c.l2_bytes = 1 << 20;
  c.l3_bytes = 8 << 20;
  c.ram_bytes = c.ram_limit_bytes = ram_bytes;
  c.memory = {10e9, 25e9};
  c.f32 = {40e9, 150e9};
  c.int8 = {200e9, 700e9};
  c.kernels = {{"Q4_0", {9e9, 20e9}, {50e9, 190e9}}, {"F16", {9e9, 22e9}, {30e9, 110e9}}};
  c.disk = 1e9;
  c.cpu_share = 1;
  c.measured_unix_s = 1'700'000'000;
  return c;
}

inline Join join_message(int number) {
  return {.instance = static_cast<uint64_t>(number) + 100,
          .address = fmt::format("10.0.0.{}:4711", number),
          .capabilities = capabilities()};
}

inline Assignment assignment(Epoch epoch) {
  Assignment work;
  work.epoch = epoch;
  work.model = {"sha256:0123", "a model", "context=4096"};
  work.begin = 2;
  work.end = 7;
  work.pieces = 12;
  work.stage = 1;
  work.stages = 3;
  work.members = {{node_id(2), "10.0.0.2:4711", {}}};
  work.previous = node_id(1);
  work.next = node_id(3);
  work.next_address = "10.0.0.3:4711";
  work.sources = {{node_id(0), "10.0.0.1:4711"}, {node_id(2), "10.0.0.2:4711"}};
  work.holders = {{node_id(3), "10.0.0.3:4711", 4, 7, 1.25e8}};
  return work;
}

}  // namespace butterfly::cluster::testing
