// Steps that a slot makes by itself, before machines meet (DiLoCo): the part of Trainer for wire_mode
// local-steps. A slot's change of the weights depends on the weights at the beginning, its micro-batches and
// its own moments, so it does not matter which machine makes it.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "train/optim/clip.h"
#include "train/trainer/batch_inputs.h"
#include "train/trainer/trainer.h"

namespace butterfly::train {

void Trainer::copy_weights(float* flat, bool back) {
  for (size_t i = 0; i < layout_->size(); ++i) {
    auto* weights = layout_->parameter(i).value.data<float>();
    float* kept = flat + layout_->offset(i);
    std::memcpy(back ? weights : kept, back ? kept : weights, layout_->count(i) * sizeof(float));
  }
}

LeafSums Trainer::local_leaves(const StepShape& shape, size_t first, std::span<const MicroBatch> batches,
                               const LeafStream* stream, const std::atomic<bool>* cut) {
  const uint32_t level = slot_level(shape.micro_batches);
  const PairTree tree(shape.micro_batches);
  GradientSum start = tree_->take();
  copy_weights(start.values, false);
  LeafSums sums;
  sums.utilisation = 1;
  sums.reports.resize(batches.size());
  for (size_t at = 0; at < batches.size();) {
    const PairNode slot{level, static_cast<uint32_t>((first + at) >> level)};
    const LeafRange range = tree.range(slot);
    BF_CHECK(range.begin == first + at && range.size() <= batches.size() - at) << "a part of a slot";
    const auto part = batches.subspan(at, range.size());
    const size_t made = run_local_steps(
        slot.index, range.begin, part, std::span(sums.reports).subspan(at, range.size()), shape.targets, cut);
    size_t targets = 0;
    for (const MicroBatch& batch : part.first(made)) targets += count_targets(batch);
    sums.made += made;
    sums.targets += targets;
    // A target counts the same in whatever slot it stands.
    const float weight = static_cast<float>(targets) / static_cast<float>(shape.targets);
    GradientSum change = tree_->take();
    layout_->clear_gaps(change.values);
    for (size_t i = 0; i < layout_->size(); ++i) {
      const auto* now = layout_->parameter(i).value.data<float>();
      const float* before = start.values + layout_->offset(i);
      float* to = change.values + layout_->offset(i);
      update_pool().parallel_for(layout_->count(i), 4096, [&](size_t begin, size_t end) {
        for (size_t k = begin; k < end; ++k) to[k] = (before[k] - now[k]) * weight;
      });
    }
    copy_weights(start.values, true);
    deliver({slot, std::move(change)}, sums, stream);
    at += range.size();
  }
  sums.coding_seconds = coding_seconds_;
  return sums;
}

size_t Trainer::run_local_steps(size_t slot, size_t first, std::span<const MicroBatch> batches,
                                std::span<LeafReport> reports, size_t targets, const std::atomic<bool>* cut) {
  const size_t steps = std::min(options_.local_steps, batches.size());
  auto* kept = reinterpret_cast<std::byte*>(residual(slot) + layout_->total());
  for (const StateArray& array : inner_->state()) {
    std::memcpy(array.bytes.data(), kept, array.bytes.size());
    kept += array.bytes.size();
  }
  size_t made = 0;
  for (size_t i = 0; i < steps && (cut == nullptr || !cut->load()); ++i) {
    const size_t begin = i * batches.size() / steps, end = (i + 1) * batches.size() / steps;
    made = end;
    const auto group = batches.subspan(begin, end - begin);
    const auto own = reports.subspan(begin, end - begin);
    size_t count = 0;
    for (const MicroBatch& batch : group) count += count_targets(batch);
    if (count == 0) continue;
    tree_->begin(group.size());
    leaf_base_ = first + begin;
    run_all(group, first + begin, count, true, own);
    leaf_base_ = 0;
    const GradientSum gradients = tree_->result();
    const double norm = this->norm(squares(layout_->all(), gradients.values));
    inner_->update_shard(layout_->all(), gradients.values, lr_, step_ * options_.local_steps + i + 1,
                         clip_scale(norm, options_.clip_norm), group.size(), update_pool());
    const double part = static_cast<double>(count) / static_cast<double>(targets);
    for (LeafReport& report : own) report.loss *= part;
  }
  kept = reinterpret_cast<std::byte*>(residual(slot) + layout_->total());
  for (const StateArray& array : inner_->state()) {
    std::memcpy(kept, array.bytes.data(), array.bytes.size());
    kept += array.bytes.size();
  }
  return made;
}

}  // namespace butterfly::train
