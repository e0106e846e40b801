#include "cluster/testing/random_problem.h"

#include <fmt/format.h>

#include <cmath>

#include "base/rng.h"

namespace butterfly::cluster::testing {
namespace {

class Draw {
 public:
  Draw(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(random_u64(seed_, stream_, at_++) >> 11) * 0x1p-53;
  }
  double log_uniform(double low, double high) { return std::exp(uniform(std::log(low), std::log(high))); }
  size_t below(size_t n) { return static_cast<size_t>(random_u64(seed_, stream_, at_++) % n); }

 private:
  uint64_t seed_, stream_, at_ = 0;
};

}  // namespace

PieceList random_pieces(const RandomProblemShape& shape, uint64_t seed) {
  Draw draw(seed, 1);
  PieceList list{
      .model = "random", .pieces = {}, .decode_in_bytes = 4, .prefill_in_bytes = 4 * 64, .prompt = 64};
  for (size_t i = 0; i < shape.pieces; ++i) {
    const bool end = i == 0 || i + 1 == shape.pieces;
    const double factor = shape.equal_blocks && !end ? 1 : draw.uniform(0.2, 2);
    const double bytes = shape.step_bytes * factor;
    Piece piece{.name = fmt::format("piece {}", i)};
    piece.decode = {.f32_flops = bytes * 0.01,
                    .int8_ops = bytes * 4,
                    .weight_bytes = bytes,
                    .kv_bytes = bytes * 0.1,
                    .activation_bytes = 1e4};
    piece.prefill = {.f32_flops = bytes,
                     .int8_ops = bytes * 256,
                     .weight_bytes = bytes,
                     .kv_bytes = bytes * 0.1,
                     .activation_bytes = 1e6};
    piece.weight_bytes = static_cast<uint64_t>(bytes);
    piece.kv_bytes = static_cast<uint64_t>(bytes * 0.1);
    piece.decode_out_bytes = shape.equal_blocks ? 16384 : draw.log_uniform(1e3, 1e6);
    piece.prefill_out_bytes = 64 * piece.decode_out_bytes;
    piece.exchanges = 2;
    piece.decode_sum_bytes = 2 * piece.decode_out_bytes;
    piece.prefill_sum_bytes = 64 * piece.decode_sum_bytes;
    if (i + 1 == shape.pieces) {
      piece.prefill_gather_bytes = piece.decode_gather_bytes = 8 * piece.decode_out_bytes;
    }
    list.pieces.push_back(piece);
  }
  return list;
}

ClusterSpec random_cluster(const RandomProblemShape& shape, uint64_t seed) {
  Draw draw(seed, 2);
  ClusterSpec cluster;
  std::vector<double> hop_s, bandwidth;
  const double share = shape.memory_factor * shape.step_bytes * static_cast<double>(shape.pieces) /
                       static_cast<double>(shape.nodes);
  for (size_t i = 0; i < shape.nodes; ++i) {
    NodeSpec node{.name = fmt::format("n{}", i), .threads = 4};
    const double memory = draw.log_uniform(8e9, 60e9);
    const double ops = draw.log_uniform(50e9, 800e9);
    node.memory = {memory / 2, memory};
    node.int8 = {ops / 4, ops};
    node.f32 = {ops / 8, ops / 2};
    node.ram_bytes = static_cast<uint64_t>(share * draw.log_uniform(0.3, 3));
    node.disk = 5e8;
    cluster.nodes.push_back(node);
    const bool wireless = draw.uniform(0, 1) < 0.35;
    hop_s.push_back(wireless ? draw.uniform(1e-3, 4e-3) : draw.uniform(1e-4, 3e-4));
    bandwidth.push_back(wireless ? draw.uniform(3e6, 6e7) : 1.17e8);
  }
  cluster.links.resize(shape.nodes * shape.nodes);
  for (size_t a = 0; a < shape.nodes; ++a)
    for (size_t b = 0; b < shape.nodes; ++b)
      cluster.link(a, b) = {hop_s[a] + hop_s[b], std::min(bandwidth[a], bandwidth[b]) * draw.uniform(0.9, 1)};
  cluster.coordinator = draw.below(shape.nodes);
  return cluster;
}

RandomProblemShape random_shape(uint64_t seed, size_t nodes_max, size_t pieces_max) {
  Draw draw(seed, 3);
  return {.nodes = 1 + draw.below(nodes_max),
          .pieces = 1 + draw.below(pieces_max),
          .equal_blocks = draw.below(2) == 0,
          .memory_factor = draw.log_uniform(0.8, 20),
          .step_bytes = draw.log_uniform(1e6, 1e9)};
}

NodeSpec unit_node(const char* name, double speed) {
  NodeSpec node{
      .name = name, .threads = 1, .f32 = {speed, speed}, .int8 = {speed, speed}, .memory = {speed, speed}};
  node.ram_bytes = uint64_t{1} << 40;
  node.compute_efficiency = node.memory_efficiency = node.other_efficiency = 1;
  return node;
}

}  // namespace butterfly::cluster::testing
