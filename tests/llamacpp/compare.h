// Next-token distributions of Butterfly and llama.cpp side by side.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <span>
#include <vector>

#include "base/testing/temp_dir.h"
#include "model/adapter/adapter.h"
#include "oracle.h"
#include "tensor/dtype.h"

namespace butterfly::testing {

struct Comparison {
  double mean_kl = 0;      // of llama.cpp's distributions against ours, over positions
  double usual_kl = 0;     // the same without the worst `left_out` positions
  double worst_logit = 0;  // largest difference
  size_t positions = 0;
  size_t top1_equal = 0;  // positions where both choose the same token
  size_t decided = 0;     // positions where llama.cpp's best two are further apart than `noise`
  size_t decided_equal = 0;
};
// Of logits [positions, vocab].
Comparison compare(std::span<const float> theirs, std::span<const float> ours, size_t vocab, double noise,
                   size_t left_out = 0);

// Both round: llama.cpp rounds activations to f16 before F16 weights and to 8 bits before quantised ones, as
// we do, but its scales to f16 too, and it sums in another order. Bounds on what that may change.
struct Bounds {
  double mean_kl, noise;
};
Bounds bounds_of(DType type);

// Prints a line, and fails the test where the bounds of `type` do not hold. `left_out`: positions that may be
// further off, where a router finds two experts as good as equal and rounding decides between them.
void expect_agreement(const std::string& name, DType type, std::span<const float> theirs,
                      std::span<const float> ours, size_t positions, size_t left_out = 0);

// Our logits after each token, with a cache of floats as logits.mjs asks of llama.cpp.
std::vector<float> our_logits(const std::filesystem::path& path, const std::vector<int32_t>& tokens,
                              size_t context, std::vector<model::AdapterSpec> adapters = {});

// Skips without llama.cpp.
class LlamaCppFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = oracle_why_not(); !reason.empty()) GTEST_SKIP() << reason;
  }
  TempDir dir_;
};

}  // namespace butterfly::testing
