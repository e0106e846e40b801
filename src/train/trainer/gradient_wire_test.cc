// Gradients coded for links: shards are parts of the whole, statistics stay floats, gaps are zeros.
#include "train/trainer/gradient_wire.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/rng.h"
#include "kernels/optim/optimizer_update.h"
#include "tensor/tensor.h"

namespace butterfly::train {
namespace {

struct GradientWireTest : ::testing::Test {
  GradientWireTest() {
    const auto add = [&](int64_t count, bool statistic) {
      auto parameter = std::make_unique<graph::Parameter>();
      parameter->name = "p" + std::to_string(owned.size());
      parameter->value = Tensor::zeros(DType::kF32, {count});
      parameter->statistic = statistic;
      owned.push_back(std::move(parameter));
      parameters.push_back(owned.back().get());
    };
    add(5, false);
    add(2 * static_cast<int64_t>(kernels::kNormBlock) + 37, false);
    add(3, true);
    add(200, false);
    layout = std::make_unique<ParameterLayout>(parameters);
    flat.resize(layout->total());
    for (size_t i = 0; i < flat.size(); ++i)
      flat[i] = static_cast<float>(static_cast<int32_t>(random_u64(1, 2, i))) * 0x1p-31f;
    layout->clear_gaps(flat.data());
  }

  std::vector<std::unique_ptr<graph::Parameter>> owned;
  std::vector<const graph::Parameter*> parameters;
  std::unique_ptr<ParameterLayout> layout;
  std::vector<float> flat;
  ThreadPool pool{2};
};

TEST_F(GradientWireTest, WhatIsDecodedIsWhatTheSenderHas) {
  for (const WireMode mode :
       {WireMode::kExact, WireMode::kBf16, WireMode::kInt8, WireMode::kLocalStepsInt4}) {
    const GradientWire wire(*layout, mode);
    std::vector<float> values = flat, residual(flat.size());
    std::vector<std::byte> code(wire.bytes());
    wire.encode(layout->all(), values.data(), has_residuals(mode) ? residual.data() : nullptr, code.data(),
                pool);
    EXPECT_EQ(std::memcmp(values.data(), flat.data(), flat.size() * sizeof(float)) == 0,
              mode == WireMode::kExact);
    const size_t floats = layout->total() * sizeof(float);
    const size_t most = mode == WireMode::kBf16             ? 51
                        : mode == WireMode::kInt8           ? 27
                        : mode == WireMode::kLocalStepsInt4 ? 16
                                                            : 100;
    EXPECT_LE(wire.bytes(), floats * most / 100);
    // However shards are cut.
    for (size_t cut = 0; cut <= layout->blocks().size(); ++cut) {
      for (const Shard shard : {Shard{0, cut}, Shard{cut, layout->blocks().size()}}) {
        std::vector<float> got(layout->shard_floats(shard), NAN);
        wire.decode(shard, code.data() + wire.offset(shard), got.data());
        const float* sent = values.data() + layout->shard_offset(shard);
        EXPECT_TRUE(got.empty() || std::memcmp(got.data(), sent, got.size() * sizeof(float)) == 0)
            << wire_mode_name(mode) << " cut at " << cut;
      }
    }
    const size_t statistic = layout->offset(2);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(values[statistic + i], flat[statistic + i]);
    // What is sent and what is left are what there was.
    if (mode == WireMode::kInt8) {
      for (size_t i = 0; i < 200; ++i)
        EXPECT_NEAR(values[layout->offset(3) + i] + residual[layout->offset(3) + i],
                    flat[layout->offset(3) + i], 1e-7);
    }
  }
}

TEST_F(GradientWireTest, ModesHaveNames) {
  for (const WireMode mode : {WireMode::kExact, WireMode::kBf16, WireMode::kInt8, WireMode::kLocalStepsInt4})
    EXPECT_EQ(wire_mode_by_name(wire_mode_name(mode)), mode);
  EXPECT_THROW(wire_mode_by_name("fp4"), Error);
}

}  // namespace
}  // namespace butterfly::train
