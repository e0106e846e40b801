#include "runtime/planning/plan_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "cluster/cost/group.h"
#include "graph/exchange.h"
#include "kernels/attention/kv_page.h"
#include "kernels/tiles/shards.h"
#include "model/arch/network.h"
#include "model/cache/cache_room.h"
#include "runtime/planning/model_shape.h"

namespace butterfly::runtime {
namespace {

using cluster::Piece;
using cluster::Work;

// Rows beyond which every expert is touched: what an op says then is all its weights.
constexpr size_t kManyRows = 4096;
constexpr double kReturnBytes = 8;  // a token id and its probability
// Of a request with the default sampling: 40 candidates, with their places.
constexpr double kCandidateBytes = 40 * 8;
constexpr double kRowInBytes = 8;  // a token id and its position

// The graphs of one piece, by number of rows.
class PieceGraphs {
 public:
  // Without `experts` what they do is not counted: how much that is depends on where rows go.
  PieceGraphs(const model::Network& network, size_t kv_value_bytes, bool experts = true)
      : network_(network), kv_value_bytes_(kv_value_bytes), experts_(experts) {
    network_.build(one_, 1, 1);
    network_.build(many_, kManyRows, 1);
  }

  // One token of each of `batch` streams, behind `depth` cached positions each.
  Work decode(size_t batch, size_t depth) const {
    graph::Graph all;
    network_.build(all, batch, batch);
    Work work;
    for (size_t i = 0; i < all.nodes().size(); ++i) {
      const graph::Node& node = one_.nodes()[i];
      if (leaves_out(node)) continue;
      const graph::Cost stream = node.op->cost(one_, node, {depth, kv_value_bytes_});
      const auto streams = static_cast<double>(batch);
      add_flops(one_, node, streams * static_cast<double>(stream.flops), work);
      work.kv_bytes += streams * static_cast<double>(stream.kv_bytes);
      work.activation_bytes += streams * static_cast<double>(stream.activation_bytes);
      work.weight_bytes += weights(all, i, batch);
    }
    return work;
  }

  // `prompt` tokens of one stream in runs of up to rows_max; logits of the last.
  Work prefill(size_t prompt, size_t rows_max) const {
    Work work;
    for (size_t done = 0; done < prompt;) {
      const size_t rows = std::min(rows_max, prompt - done);
      graph::Graph run;
      network_.build(run, rows, 1);
      for (size_t i = 0; i < run.nodes().size(); ++i) {
        const graph::Node& node = run.nodes()[i];
        if (leaves_out(node)) continue;
        const graph::Cost cost = node.op->cost(run, node, {done, kv_value_bytes_});
        add_flops(run, node, static_cast<double>(cost.flops), work);
        work.kv_bytes += static_cast<double>(cost.kv_bytes);
        work.activation_bytes += static_cast<double>(cost.activation_bytes);
        work.weight_bytes += weights(run, i, rows);
      }
      done += rows;
    }
    return work;
  }

  const graph::Graph& of_one_row() const { return one_; }

 private:
  bool leaves_out(const graph::Node& node) const { return !experts_ && node.op->name == "expert_matmul"; }

  // Products with quantised rows are integer products.
  static void add_flops(const graph::Graph& g, const graph::Node& node, double flops, Work& work) {
    const bool product =
        node.op->name == "matmul" || node.op->name == "expert_matmul" || node.op->name == "head_matmul";
    if (!product)
      work.other_flops += flops;
    else if (g.type(node.inputs[0]).elem == graph::Elem::kF32)
      work.f32_flops += flops;
    else
      work.int8_ops += flops;
  }

  double weights(const graph::Graph& g, size_t index, size_t rows) const {
    const auto read = [&](const graph::Graph& from) {
      const graph::Node& node = from.nodes()[index];
      return static_cast<double>(node.op->cost(from, node, {0, kv_value_bytes_}).weight_bytes);
    };
    if (g.nodes()[index].op->name != "expert_matmul") return read(g);
    const double all = read(many_), share = read(one_) / all;
    return all * (1 - std::pow(1 - share, static_cast<double>(rows)));
  }

  const model::Network& network_;
  size_t kv_value_bytes_;
  bool experts_;
  graph::Graph one_, many_;
};

static_assert(cluster::kMembersToSlice == graph::kMembersToReduce, "plans count what is sent");

// What members of a group send each other in a piece, as the graph of one of them for a single row says: sums
// over the members, and rows of experts, which go from the member that has them to all others.
void fill_exchanges(Piece& piece, const graph::Graph& member, const PlanWorkload& workload) {
  double sums = 0, spread = 0;
  for (const graph::Node& node : member.nodes()) {
    const auto parts = graph::exchange_parts(node);
    piece.exchanges += parts.empty() ? 0 : 1;
    for (const graph::ExchangePart& part : parts)
      (part.kind == graph::ExchangeKind::kShardSums ? sums : spread) +=
          4 * static_cast<double>(part.rows * part.cols);
  }
  const auto batch = static_cast<double>(workload.batch), prompt = static_cast<double>(workload.prompt);
  piece.decode_is_long = workload.batch >= graph::kRowsToReduce;
  piece.decode_sum_bytes = sums * batch;
  piece.prefill_sum_bytes = sums * prompt;
  piece.decode_spread_bytes = spread * batch;
  piece.prefill_spread_bytes = spread * prompt;
}

// What a layer keeps, with values of so many bytes each.
uint64_t cached_bytes(const model::LayerState& layer, size_t kv_value_bytes, const model::CacheRoom& room) {
  if (layer.kind == model::StateKind::kRecurrent) return model::state_bytes(layer, DType::kF32, room);
  const size_t positions = room.of(model::page_kind(layer, room)) * kernels::kKvPage;
  return layer.keeps_keys() ? uint64_t{layer.position_values()} * kv_value_bytes * positions : 0;
}

// The member that has one unit, neither the first nor the last: it tells what grows with shares from what
// does not.
model::GroupShare one_unit() {
  const uint32_t units = kernels::kShardsMax;
  model::GroupShare group;
  for (const auto& [begin, end] : {std::pair(0U, 1U), std::pair(1U, 2U), std::pair(2U, units)}) {
    const model::UnitRange range{begin, end, units};
    group.members.push_back({range, range, range, range});
  }
  group.self = 1;
  return group;
}

// Of what takes `all`, and `one` for a member with one of n units: whole + (all - whole) / n = one.
double whole_of(double all, double one) {
  constexpr double n = kernels::kShardsMax;
  return std::clamp((n * one - all) / (n - 1), 0.0, all);
}

constexpr double Work::*kWorkParts[] = {&Work::f32_flops,    &Work::int8_ops, &Work::other_flops,
                                        &Work::weight_bytes, &Work::kv_bytes, &Work::activation_bytes};

Work whole_of(const Work& all, const Work& one) {
  Work whole;
  for (const auto part : kWorkParts) whole.*part = whole_of(all.*part, one.*part);
  return whole;
}

Work without(Work all, const Work& part) {
  for (const auto kind : kWorkParts) all.*kind = std::max(0.0, all.*kind - part.*kind);
  return all;
}

}  // namespace

cluster::PieceList plan_pieces(const model::ModelFile& original, const PlanWorkload& wanted) {
  const model::ModelFile file = without_values(original);
  PlanWorkload w = wanted;
  const model::ModelConfig config = model::read_config(file, w.context);
  if (config.positions_max > 0) w.context = std::min(w.context, config.positions_max);
  if (w.context == 0) w.context = std::min<size_t>(config.context, 4096);
  if (w.depth == SIZE_MAX) w.depth = w.context / 2;
  if (w.batch == 0 || w.streams < w.batch)
    fail(Errc::kInvalidArgument, "batches of {} streams: expected 1 to {}, the number of streams", w.batch,
         w.streams);
  const model::Architecture& architecture = model::architecture_of(file);
  ThreadPool pool(1);

  cluster::PieceList list{.model = original.path().filename().string(), .pieces = {}};
  list.batch = w.batch;
  list.streams = w.streams;
  list.context = w.context;
  list.prompt = w.prompt;
  list.decode_in_bytes = kRowInBytes * static_cast<double>(w.batch);
  list.prefill_in_bytes = kRowInBytes * static_cast<double>(w.prompt);
  list.share_units = kernels::kShardsMax;
  const auto row_cols = static_cast<double>(config.row_cols());
  // The cache gives out whole pages. A chain that keeps its caches does not cut windows (StageSettings).
  const model::CacheRoom room =
      model::cache_room(config.states, {.positions = round_up(w.context, kernels::kKvPage) * w.streams,
                                        .sequences = w.streams,
                                        .rows_max = w.rows_max,
                                        .cut_windows = false});

  const auto kv_bytes = [&](const model::ModelConfig& of, model::LayerRange range) {
    uint64_t bytes = 0;
    for (size_t block = range.begin; block < range.end; ++block)
      bytes += cached_bytes(of.states[block], w.kv_value_bytes, room);
    return bytes;
  };
  const model::GroupShare share = one_unit();
  model::ModelConfig member = config;
  if (w.shares) share_states(member, file, share);
  const auto fill_whole = [&](Piece& piece, const model::Network& all, model::LayerRange range) {
    model::WeightLoader weights(file, pool);
    weights.leave_values();
    weights.load_share(share);
    const auto network = architecture.load(member, weights, range);
    const PieceGraphs one(*network, w.kv_value_bytes, false), whole(all, w.kv_value_bytes, false);
    fill_exchanges(piece, one.of_one_row(), w);
    piece.decode_whole = whole_of(whole.decode(w.batch, w.depth), one.decode(w.batch, w.depth));
    piece.prefill_whole = whole_of(whole.prefill(w.prompt, w.rows_max), one.prefill(w.prompt, w.rows_max));
    piece.whole_bytes = static_cast<uint64_t>(
        whole_of(static_cast<double>(piece.weight_bytes), static_cast<double>(weights.resident_bytes())) +
        whole_of(static_cast<double>(piece.kv_bytes), static_cast<double>(kv_bytes(member, range))));
  };
  const auto add = [&](std::string name, model::LayerRange range) -> Piece& {
    model::WeightLoader weights(file, pool);
    weights.leave_values();
    const auto network = architecture.load(config, weights, range);
    const PieceGraphs graphs(*network, w.kv_value_bytes);
    Piece& piece = list.pieces.emplace_back();
    piece.name = std::move(name);
    piece.decode = graphs.decode(w.batch, w.depth);
    piece.prefill = graphs.prefill(w.prompt, w.rows_max);
    piece.weight_bytes = weights.resident_bytes();
    piece.kv_bytes = kv_bytes(config, range);
    if (w.shares) fill_whole(piece, *network, range);
    piece.decode_out_bytes = w.wire_value_bytes * row_cols * static_cast<double>(w.batch);
    piece.prefill_out_bytes = w.wire_value_bytes * row_cols * static_cast<double>(w.prompt);
    return piece;
  };
  const auto take_away = [](Piece& from, const Piece& part) {
    from.decode -= part.decode;
    from.prefill -= part.prefill;
    from.weight_bytes -= part.weight_bytes;
    from.decode_whole = without(from.decode_whole, part.decode_whole);
    from.prefill_whole = without(from.prefill_whole, part.prefill_whole);
    from.whole_bytes -= std::min(from.whole_bytes, part.whole_bytes);
  };
  add("embedding", {0, 0});
  for (size_t i = 0; i < config.layers; ++i) add(fmt::format("block {}", i), {i, i + 1});
  add("head", {config.layers, config.layers});
  for (size_t i = 0; i < config.layers; ++i)  // from the layer whose keys it reads up to it
    if (const model::LayerState& state = config.states[i]; state.kind == model::StateKind::kShared)
      for (size_t piece = state.source + 2; piece <= i + 1; ++piece) list.pieces[piece].tied = true;
  // The range of the first block brings the embedding with it, that of the last block the head.
  Piece& head = list.pieces.back();
  take_away(list.pieces[1], list.pieces.front());
  take_away(list.pieces[config.layers], head);
  const double returned = w.return_logits ? 4 * static_cast<double>(config.vocab) : kReturnBytes;
  head.decode_out_bytes = returned * static_cast<double>(w.batch);
  head.prefill_out_bytes = returned;
  // Rows of the head are shared: logits come together where tokens are drawn, or the candidates that most
  // requests are content with.
  head.prefill_gather_bytes = w.return_logits ? returned : kCandidateBytes;
  head.decode_gather_bytes = head.prefill_gather_bytes * static_cast<double>(w.batch);
  return list;
}

}  // namespace butterfly::runtime
