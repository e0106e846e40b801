#include "runtime/training/pipeline_stage.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "base/sha256.h"
#include "kernels/simd/target.h"

namespace butterfly::runtime {
namespace {

constexpr const char* kTable = "token_embd.weight";

void each_shard(const cluster::TrainPlan& plan, cluster::TrainMemberId id,
                const std::function<void(const train::Shard& shard)>& add) {
  for (const cluster::OwnedShard& owned : plan.shards)
    if (owned.owner == id) add({owned.begin, owned.end});
}

// Buffers of a sum over so many leaves that come one behind the other: one on every level of the tree, the
// leaf that is computed, and one that is being added.
size_t sum_buffers(size_t leaves) { return static_cast<size_t>(std::bit_width(leaves)) + 1; }

}  // namespace

PipelineStageNetwork open_stage(const PipelineSource& source, const cluster::TrainPlan& plan,
                                cluster::TrainMemberId id) {
  const size_t index = plan.stage_of(id);
  BF_CHECK(index < plan.stages.size());
  const cluster::PipelineStage& cut = plan.stages[index];
  const size_t layers = model::read_config(source.network.file()).layers;
  if (plan.stages.back().end != layers + 2)
    fail(Errc::kCorrupt, "[training plan] stages end at piece {}, the network has {}", plan.stages.back().end,
         layers + 2);
  PipelineStageNetwork stage;
  stage.network = train::open_stage_network(source.config, source.network,
                                            model::range_of_pieces(cut.begin, cut.end, layers));
  if (source.network.tied() != plan.tied)
    fail(Errc::kCorrupt, "[training plan] a {} head, the network's is another", plan.tied ? "tied" : "free");
  train::TrainerOptions options = train::trainer_options(source.config, source.steps);
  options.threads_per_worker = source.threads;
  const bool first = index == 0, last = index + 1 == plan.stages.size();
  stage.trainer = std::make_unique<train::StageTrainer>(
      *stage.network, train::StageOptions{.trainer = options,
                                          .names = source.network.outline.names,
                                          .items = source.items,
                                          .in_flight = plan.in_flight_at(index),
                                          .shares_table = last && plan.table_apart(),
                                          .table_elsewhere = first && plan.table_apart()});
  size_t blocks = 0;
  for (const cluster::OwnedShard& owned : plan.shards)
    if (owned.owner == id) blocks += owned.end - owned.begin;
  if (blocks != stage.trainer->layout().blocks().size())
    fail(Errc::kCorrupt, "[training plan] {} norm blocks for a stage that has {}", blocks,
         stage.trainer->layout().blocks().size());
  return stage;
}

BytePieces weights_taught(const PipelineStageNetwork& stage) {
  BytePieces pieces;
  const train::ParameterLayout& layout = stage.trainer->layout();
  for (size_t i = 0; i < layout.size(); ++i)
    pieces.emplace_back(layout.parameter(i).value.raw(), layout.count(i) * sizeof(float));
  return pieces;
}

BytePieces weights_read(const PipelineStageNetwork& stage, const cluster::TrainPlan& plan,
                        cluster::TrainMemberId id) {
  BytePieces pieces;
  if (plan.table_apart() && plan.stage_of(id) == 0) {
    const Tensor& table = stage.network->weights().at(kTable);
    pieces.emplace_back(table.raw(), table.bytes());
  }
  for (const auto& piece : weights_taught(stage)) pieces.push_back(piece);
  return pieces;
}

BytePieces moments_of(const PipelineStageNetwork& stage) {
  BytePieces pieces;
  for (const train::StateArray& array : stage.trainer->optimizer_state()) pieces.push_back(array.bytes);
  return pieces;
}

BytePieces whole_weights(train::Trainer& whole, const cluster::TrainPlan& plan, cluster::TrainMemberId id,
                         bool with_table) {
  BytePieces pieces;
  const train::ParameterLayout& layout = whole.layout();
  if (with_table && plan.table_apart() && plan.stage_of(id) == 0)
    pieces.emplace_back(layout.parameter(0).value.raw(), layout.count(0) * sizeof(float));
  each_shard(plan, id, [&](const train::Shard& shard) {
    for (const train::NormBlock& run : layout.runs(shard))
      pieces.emplace_back(layout.parameter(run.parameter).value.raw() + run.first * sizeof(float),
                          run.count * sizeof(float));
  });
  return pieces;
}

BytePieces whole_moments(train::Trainer& whole, const cluster::TrainPlan& plan, cluster::TrainMemberId id) {
  BytePieces pieces;
  const train::ParameterLayout& layout = whole.layout();
  for (const train::StateArray& array : whole.optimizer_state()) {
    const size_t element = array.bytes.size() / layout.total();
    each_shard(plan, id, [&](const train::Shard& shard) {
      pieces.push_back(
          array.bytes.subspan(layout.shard_offset(shard) * element, layout.shard_floats(shard) * element));
    });
  }
  return pieces;
}

// Both lists hold the same bytes, cut at other places.
void copy_pieces(const BytePieces& from, const BytePieces& to) {
  size_t piece = 0, at = 0;
  for (std::span<std::byte> target : to)
    while (!target.empty()) {
      BF_CHECK(piece < from.size()) << "pieces of unequal lists";
      const size_t part = std::min(target.size(), from[piece].size() - at);
      std::memcpy(target.data(), from[piece].data() + at, part);
      target = target.subspan(part);
      at += part;
      if (at == from[piece].size()) {
        ++piece;
        at = 0;
      }
    }
  while (piece < from.size() && from[piece].empty()) ++piece;
  BF_CHECK(piece == from.size()) << "pieces of unequal lists";
}

std::vector<std::string> parameter_names(const train::Trainer& whole) {
  std::vector<std::string> names;
  for (size_t i = 0; i < whole.layout().size(); ++i) names.push_back(whole.layout().parameter(i).name);
  return names;
}

cluster::PipelineConfig pipeline_config(train::TrainRun& run, uint64_t memory_bytes) {
  const train::TrainConfig& settings = run.config();
  const train::StageSource source = train::stage_source(*run.task().network, parameter_names(run.trainer()));
  const model::ModelConfig network = model::read_config(source.file());
  if (!settings.rl.empty())
    fail(Errc::kUnsupported, "pipeline_stages: rl {} needs the whole model on each node", settings.rl);
  const bool reads_others = std::ranges::any_of(
      network.states, [](const model::LayerState& state) { return state.kind == model::StateKind::kShared; });
  if (network.layer_input_cols > 0 || reads_others)
    fail(
        Errc::kUnsupported,
        "pipeline_stages: layers of {} have inputs of their own, or another layer's keys, and need the whole "
        "model on each node",
        network.architecture);
  if (settings.wire_mode != "exact")
    fail(Errc::kInvalidArgument, "pipeline_stages: no gradients go between nodes, so wire_mode {} has no use",
         settings.wire_mode);
  train::Trainer& trainer = run.trainer();
  const train::ParameterLayout& layout = trainer.layout();
  const bool tied = source.tied();
  const size_t layers = network.layers, leaves = settings.gradient_accumulation_steps;
  const size_t rows = settings.micro_batch_size * settings.sequence_len;
  const size_t row_bytes = rows * network.dim * sizeof(float);

  cluster::PipelineConfig config;
  config.stages_max = static_cast<uint32_t>(settings.pipeline_stages);
  config.memory = memory_bytes;
  config.pieces.resize(layers + 2);
  const size_t in_flight = std::max<size_t>(config.in_flight, settings.pipeline_stages);

  size_t moment_bytes = 0;
  for (const train::StateArray& array : trainer.optimizer_state()) moment_bytes += array.bytes.size();
  const size_t state_bytes = sizeof(float) * (1 + sum_buffers(leaves)) + moment_bytes / layout.total();
  size_t before = 0;
  for (const train::NormBlock& block : layout.blocks()) {
    const size_t piece =
        train::piece_of_parameter(source.file(), layers, tied, layout.parameter(block.parameter).name);
    const bool table = tied && block.parameter == 0;
    if (!table && piece < before)
      fail(Errc::kUnsupported, "pipeline_stages: {} stands behind later layers",
           layout.parameter(block.parameter).name);
    if (!table) before = piece;
    cluster::TrainPiece& target = config.pieces[piece];
    target.bytes += block.count * state_bytes;
    target.flops += 6.0 * static_cast<double>(block.count) * static_cast<double>(rows);
    if (table) {
      ++config.tied_blocks;
      target.bytes += block.count * sizeof(float) * in_flight;  // until rows of gradients come
      config.pieces[0].bytes += block.count * sizeof(float);    // a copy
    } else {
      ++target.blocks;
    }
  }
  // Looking rows up is no product.
  config.pieces[0].flops = static_cast<double>(rows * network.dim);
  const train::FrozenPieces frozen = train::frozen_pieces(source, layers);
  for (size_t i = 0; i < config.pieces.size(); ++i) {
    config.pieces[i].bytes += frozen.bytes[i];
    config.pieces[i].flops += frozen.flops[i] * static_cast<double>(rows);
  }
  // What the passes of a micro-batch keep, from the plan of the whole graph.
  const size_t passes = trainer.executor(settings.micro_batch_size).plan().arena_bytes;
  for (size_t i = 1; i <= layers; ++i) config.pieces[i].bytes += passes / layers * in_flight + row_bytes;
  config.pieces[0].bytes += 4 * row_bytes * in_flight;
  const size_t logits = std::min<size_t>(size_t{32} << 20, rows * network.vocab * sizeof(float));
  config.pieces[layers + 1].bytes += passes / layers + 4 * row_bytes + logits;
  return config;
}

std::string pipeline_agreement(const train::TrainConfig& config, const train::StageSource& network) {
  std::string text = fmt::format("numerics {}\n{}", kernels::kNumericsId, train::config_text(config));
  for (const std::string& name : network.outline.names) text += name + "\n";
  for (const model::NamedTensor& tensor : network.outline.file.tensors())
    text += fmt::format("{} {}\n", tensor.name, tensor.shape.to_string());
  return sha256_hex(text);
}

}  // namespace butterfly::runtime
