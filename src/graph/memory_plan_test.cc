// Plans of graphs: lifetimes, work in place, regions by class, and what people are shown of them.
#include "graph/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "graph/memory_picture.h"

namespace butterfly::graph {
namespace {

using ::testing::HasSubstr;

// An operation that does nothing and gives what its attributes say.
std::vector<ValueType> infer_fake(const Graph&, const Node& node) { return {node.attrs<ValueType>()}; }
Cost cost_fake(const Graph&, const Node&, const CostContext&) { return {}; }
size_t scratch_fake(const Graph&, const Node&) { return 100; }
void run_fake(const Node&, const RunContext&) {}
constexpr OpType kFake = {"fake", infer_fake, cost_fake, nullptr, -1, run_fake};
constexpr OpType kFakeInPlace = {"in_place", infer_fake, cost_fake, nullptr, 0, run_fake};
constexpr OpType kFakeScratch = {"scratch", infer_fake, cost_fake, scratch_fake, -1, run_fake};

ValueType floats(int64_t count) { return {Elem::kF32, {1, count}}; }

ValueId op(Graph& g, const OpType& type, std::vector<ValueId> inputs, int64_t count, std::string name) {
  return g.add(type, std::move(inputs), std::make_shared<ValueType>(floats(count)), std::move(name))[0];
}

size_t offset(const MemoryPlan& plan, ValueId v) { return plan.value_offsets[v.index]; }

TEST(MemoryPlan, InputsLiveFromTheStartAndOutputsToTheEnd) {
  Graph g;
  const ValueId late = g.input("late", floats(16));
  const ValueId a = op(g, kFake, {}, 16, "a");
  g.mark_output(a);
  const ValueId b = op(g, kFake, {}, 16, "b");
  const ValueId c = op(g, kFake, {late, b}, 16, "c");
  const MemoryPlan plan = plan_memory(g, 1);
  EXPECT_EQ(std::set<size_t>({offset(plan, late), offset(plan, a), offset(plan, b), offset(plan, c)}).size(),
            4u);
  EXPECT_EQ(plan.arena_bytes, 4 * 64u);
}

TEST(MemoryPlan, ScratchIsPerThreadAndOnlyForItsStep) {
  Graph g;
  const ValueId x = op(g, kFakeScratch, {}, 16, "x");
  op(g, kFakeScratch, {x}, 16, "y");
  const MemoryPlan plan = plan_memory(g, 3);
  EXPECT_EQ(plan.scratch_bytes, (std::vector<size_t>{128, 128}));
  EXPECT_EQ(plan.arena_bytes, 3 * 128 + 2 * 64u);
}

TEST(MemoryPlan, ClassesHaveRegionsOfTheirOwn) {
  Graph g;
  const ValueId w1 = g.input("w1", floats(100));
  const ValueId x = op(g, kFake, {w1}, 50, "x");
  const ValueId w2 = g.input("w2", floats(30));
  const ValueId y = op(g, kFake, {x, w2}, 50, "y");
  const ValueId dw = op(g, kFake, {y}, 100, "dw1");
  for (const ValueId w : {w1, w2}) g.set_memory_class(w, MemoryClass::kWeights);
  g.set_memory_class(dw, MemoryClass::kGradients);
  g.mark_output(dw);
  const MemoryPlan plan = plan_memory(g, 1);

  const auto inside = [&](ValueId v, MemoryClass memory) {
    const MemoryRegion& region = plan.region(memory);
    return offset(plan, v) >= region.offset && offset(plan, v) < region.offset + region.bytes;
  };
  EXPECT_TRUE(inside(w1, MemoryClass::kWeights) && inside(w2, MemoryClass::kWeights));
  EXPECT_TRUE(inside(x, MemoryClass::kActivations) && inside(y, MemoryClass::kActivations));
  EXPECT_TRUE(inside(dw, MemoryClass::kGradients));
  EXPECT_EQ(plan.region(MemoryClass::kWeights).bytes, 448 + 128u);
  EXPECT_EQ(plan.region(MemoryClass::kGradients).bytes, 448u);
  EXPECT_EQ(plan.region(MemoryClass::kOptimizer).bytes, 0u);
  EXPECT_EQ(plan.arena_bytes, 576 + 448 + 2 * 256u);
  EXPECT_EQ(plan.live_bytes_max, plan.arena_bytes);
}

// Weights keep their contents between runs, so nothing may use their bytes before or after, not even in
// place.
TEST(MemoryPlan, LastingValuesAreNeverTakenOver) {
  Graph g;
  const ValueId w = g.input("w", floats(16));
  g.set_memory_class(w, MemoryClass::kWeights);
  const ValueId x = op(g, kFakeInPlace, {w}, 16, "x");
  const ValueId other = op(g, kFakeInPlace, {x}, 16, "other");
  g.set_memory_class(other, MemoryClass::kCommunication);
  const MemoryPlan plan = plan_memory(g, 1);
  EXPECT_NE(offset(plan, x), offset(plan, w));
  EXPECT_NE(offset(plan, other), offset(plan, x));
  for (const PlannedBuffer& buffer : plan.buffers) {
    if (buffer.region == MemoryClass::kActivations) continue;
    EXPECT_EQ(buffer.life.first, 0u);
    EXPECT_EQ(buffer.life.last, 2u);
  }
}

// Used up at once, a gradient shares memory with activations; bound, it takes none here but is counted.
TEST(MemoryPlan, GradientsThatDoNotLastShareMemory) {
  Graph g;
  const ValueId a = op(g, kFake, {}, 16, "a");
  const ValueId dw1 = op(g, kFake, {a}, 16, "dw1");
  const ValueId use = op(g, kFake, {dw1}, 16, "use");
  const ValueId dw2 = op(g, kFake, {use}, 16, "dw2");
  for (const ValueId dw : {dw1, dw2}) g.set_memory_class(dw, MemoryClass::kGradients);
  g.bind(dw2);
  const MemoryPlan plan = plan_memory(g, 1);
  EXPECT_EQ(plan.arena_bytes, 2 * 64u);
  EXPECT_EQ(plan.region(MemoryClass::kGradients).bytes, 0u);
  EXPECT_EQ(plan.region(MemoryClass::kGradients).bound_bytes, 64u);
  EXPECT_THAT(memory_report(g, plan), HasSubstr("64 B of gradients outside the pool"));
}

Graph training_like() {
  Graph g;
  std::vector<ValueId> kept;
  ValueId x = g.input("x", floats(4000));
  for (int i = 0; i < 6; ++i) {
    kept.push_back(x);
    x = op(g, i % 2 == 0 ? kFakeScratch : kFake, {x}, 4000 + 500 * i, "layer" + std::to_string(i));
  }
  ValueId dx = x;
  for (int i = 5; i >= 0; --i) {
    dx = op(g, kFake, {dx, kept[static_cast<size_t>(i)]}, 4000, "back <" + std::to_string(i) + ">");
    const ValueId dw = op(g, kFake, {dx}, 2000, "dw" + std::to_string(i));
    g.set_memory_class(dw, MemoryClass::kGradients);
    g.mark_output(dw);
  }
  return g;
}

TEST(MemoryPlan, TheReportNamesClassesAndTheFullestStep) {
  const Graph g = training_like();
  const MemoryPlan plan = plan_memory(g, 2);
  const std::string report = memory_report(g, plan);
  for (const char* words : {"activations", "gradients", "pool/LOAD", "fullest at step", "layer5"})
    EXPECT_THAT(report, HasSubstr(words));
  EXPECT_THAT(report, ::testing::Not(HasSubstr("optimizer")));
}

TEST(MemoryPlan, ThePictureShowsEveryBuffer) {
  const Graph g = training_like();
  const std::string svg = memory_picture(g, plan_memory(g, 2), "a <small> network");
  EXPECT_THAT(svg, HasSubstr("a &lt;small&gt; network"));
  EXPECT_THAT(svg, HasSubstr("back &lt;3&gt;"));
  EXPECT_THAT(svg, ::testing::EndsWith("</svg>\n"));
  size_t titles = 0;
  for (size_t at = svg.find("<title>"); at != std::string::npos; at = svg.find("<title>", at + 1)) ++titles;
  EXPECT_EQ(titles, 1 + 12 + 6 + 3u);  // input, activations, gradients, scratch
}

}  // namespace
}  // namespace butterfly::graph
