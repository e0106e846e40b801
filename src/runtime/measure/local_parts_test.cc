#include "runtime/measure/local_parts.h"

#include <gtest/gtest.h>

#include <bit>

#include "base/error.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

using testing::RandomModel;
using testing::some_tokens;

double perplexity(RandomModel& model, size_t parts, const char* format) {
  std::vector<std::unique_ptr<LoadedModel>> loaded;
  for (const model::LayerRange& range : equal_ranges(2, parts)) {
    LoadOptions options;
    options.range = range;
    loaded.push_back(load_model(model.path(), model.loaded().pool, options));
  }
  LocalParts split(std::move(loaded), model.loaded().pool, {.positions = 64}, find_row_format(format));
  return measure_perplexity(split.scored(), some_tokens(200, 320), std::nullopt, {.context = 64}).value;
}

TEST(LocalParts, ExactRowsHaveThePerplexityOfOneMachineAndOthersComeNear) {
  RandomModel model(DType::kQ8_0);
  CachedLayers whole(*model.loaded().model, model.loaded().pool, {.positions = 64});
  const double want = measure_perplexity(whole, some_tokens(200, 320), std::nullopt, {.context = 64}).value;
  EXPECT_EQ(perplexity(model, 1, "int8"), want) << "nothing travels";
  EXPECT_EQ(perplexity(model, 2, "f32"), want);
  EXPECT_EQ(perplexity(model, 4, "f32"), want);
  for (const char* lossy : {"f16", "int8"}) {
    EXPECT_NE(perplexity(model, 2, lossy), want) << lossy;
    EXPECT_NEAR(perplexity(model, 2, lossy), want, want * 0.05) << lossy;
  }
}

TEST(LocalParts, RangesAreEqualAndWhole) {
  for (size_t count = 1; count <= 24; ++count) {
    const auto ranges = equal_ranges(22, count);
    ASSERT_EQ(ranges.size(), count);
    EXPECT_TRUE(ranges.front().has_embedding());
    EXPECT_TRUE(ranges.back().has_head(22));
    for (size_t i = 1; i < count; ++i) EXPECT_EQ(ranges[i].begin, ranges[i - 1].end);
  }
  EXPECT_THROW(equal_ranges(22, 25), Error);
  EXPECT_THROW(equal_ranges(22, 0), Error);
}

}  // namespace
}  // namespace butterfly::runtime
