// Steps of slots by themselves: one slot with one step and a plain outer step is the optimizer itself;
// several learn as well.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/rng.h"
#include "train/networks/transformer.h"
#include "train/trainer/trainer.h"

namespace butterfly::train {
namespace {

constexpr size_t kLength = 16, kLeaves = 8;

model::ModelFile fresh() {
  model::RandomModelOptions sizes;
  sizes.architecture = "llama";
  sizes.vocabulary_size = 24;
  sizes.context_length = kLength;
  sizes.embedding_length = 32;
  sizes.block_count = 2;
  sizes.feed_forward_length = 48;
  sizes.head_count = 2;
  sizes.head_count_kv = 2;
  return untrained_model(sizes, {}, 0.2f);
}

struct Data {
  std::vector<int32_t> tokens, targets;
  explicit Data(uint64_t step) {
    for (size_t i = 0; i < kLeaves; ++i) {
      auto token = static_cast<int32_t>(random_u64(3, step, i) % 24);
      for (size_t t = 0; t < kLength; ++t) {
        tokens.push_back(token);
        token = (token * 5 + 7) % 24;
        targets.push_back(token);
      }
    }
  }
  std::vector<MicroBatch> batches() const {
    std::vector<MicroBatch> parts;
    for (size_t i = 0; i < kLeaves; ++i)
      parts.push_back({std::span(tokens).subspan(i * kLength, kLength),
                       {},
                       std::span(targets).subspan(i * kLength, kLength)});
    return parts;
  }
};

TrainerOptions options(size_t slots, size_t steps) {
  TrainerOptions o;
  o.schedule = {.lr = 1e-2, .total_steps = 60};
  o.threads_per_worker = 1;
  o.clip_norm = 1;
  o.wire = WireMode::kLocalSteps;
  o.slots = slots;
  o.local_steps = steps;
  return o;
}

double loss_after(const TrainerOptions& o, size_t steps) {
  Transformer network(fresh(), {.length = kLength});
  Trainer trainer(network, o);
  double loss = 0;
  for (size_t i = 0; i < steps; ++i) loss = trainer.step(Data(i).batches()).loss;
  return loss;
}

TEST(LocalSteps, Learn) {
  TrainerOptions exact = options(1, 1);
  exact.wire = WireMode::kExact;
  const double first = loss_after(exact, 1), plain = loss_after(exact, 25);
  EXPECT_GT(first, 2.5);
  EXPECT_LT(plain, 0.5);
  // As many micro-batches, and an exchange of weights instead of a quarter of the steps' gradients.
  EXPECT_LT(loss_after(options(2, 4), 25), 0.5);
  EXPECT_LT(loss_after(options(4, 2), 25), 0.5);
  TrainerOptions four_bits = options(2, 4);
  four_bits.wire = WireMode::kLocalStepsInt4;
  EXPECT_LT(loss_after(four_bits, 25), 0.5);
}

// What was cut short is a mean over what was seen.
TEST(LocalSteps, CutShortTheyEndWithWhatTheyHave) {
  const Data data(1);
  const std::vector<MicroBatch> batches = data.batches();
  const StepShape shape = step_shape(batches);
  std::atomic<bool> cut = true;
  Transformer network(fresh(), {.length = kLength});
  Trainer trainer(network, options(2, 4));
  const LeafSums none = trainer.leaves(shape, 0, batches, nullptr, &cut);
  EXPECT_EQ(none.made + none.targets, 0u);
  ASSERT_EQ(none.subtrees.size(), 2u);
  for (size_t i = 0; i < trainer.layout().total(); ++i) ASSERT_EQ(none.subtrees[1].sum.values[i], 0);

  // Cut when the first slot is done: the sum is that of this slot, times the part of targets that it has.
  cut = false;
  const LeafStream stream(trainer.layout(), {trainer.layout().all()},
                          [&](const LeafSubtree&, size_t) { cut = true; });
  const LeafSums half = trainer.leaves(shape, 0, batches, &stream, &cut);
  EXPECT_EQ(half.made, kLeaves / 2);
  EXPECT_EQ(half.targets, shape.targets / 2);
  EXPECT_GT(half.reports[0].loss, 0);
  EXPECT_EQ(half.reports[kLeaves - 1].loss, 0);

  // With the scale of a commit, the change of the one slot alone moves the weights.
  TrainerOptions plain = options(2, 4);
  plain.outer_lr = 1;
  plain.outer_momentum = 0;
  Transformer a(fresh(), {.length = kLength});
  Trainer one(a, plain);
  cut = false;
  std::vector<LeafSubtree> parts;
  const LeafStream keep(one.layout(), {one.layout().all()}, [&](const LeafSubtree& it, size_t) {
    parts.push_back(it);
    cut = true;
  });
  std::vector<float> before;
  for (const auto& [name, tensor] : a.weights())
    before.insert(before.end(), tensor.data<float>(), tensor.data<float>() + tensor.count());
  one.leaves(shape, 0, batches, &keep, &cut);
  ASSERT_EQ(parts.size(), 2u);
  for (size_t i = 0; i < one.layout().total(); ++i) ASSERT_EQ(parts[1].sum.values[i], 0);
  one.update(one.layout().all(), parts[0].sum.values, 0, kLeaves, 2);
  size_t at = 0;
  for (const auto& [name, tensor] : a.weights()) {
    size_t index = 0;
    while (index < one.layout().size() && one.layout().parameter(index).name != name) ++index;
    for (int64_t i = 0; i < tensor.count(); ++i, ++at)
      if (index < one.layout().size()) {
        ASSERT_NEAR(tensor.data<float>()[i],
                    before[at] - 2 * parts[0].sum.values[one.layout().offset(index) + static_cast<size_t>(i)],
                    1e-6);
      }
  }
}

// The mean of one change with rate 1 and no momentum is that change, but for what eight bits lose once.
TEST(LocalSteps, OneSlotIsTheOptimizerItself) {
  TrainerOptions local = options(1, 1), exact = local;
  exact.wire = WireMode::kExact;
  local.outer_lr = 1;
  local.outer_momentum = 0;
  Transformer a(fresh(), {.length = kLength}), b(fresh(), {.length = kLength});
  const Transformer before(fresh(), {.length = kLength});
  Trainer one(a, exact), two(b, local);
  const Data data(1);
  EXPECT_EQ(one.step(data.batches()).loss, two.step(data.batches()).loss);
  for (const auto& [name, tensor] : a.weights()) {
    const auto* x = tensor.data<float>();
    const auto* y = b.weights().at(name).data<float>();
    const auto* w = before.weights().at(name).data<float>();
    float largest = 0, off = 0;
    for (int64_t i = 0; i < tensor.count(); ++i) {
      largest = std::max(largest, std::abs(x[i] - w[i]));
      off = std::max(off, std::abs(x[i] - y[i]));
    }
    EXPECT_GT(largest, 0) << name;
    EXPECT_LT(off, largest / 100) << name;
  }
}

}  // namespace
}  // namespace butterfly::train
