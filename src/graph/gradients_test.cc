// Every op's gradient against finite differences, sums over several readers, and one result on any number of
// threads.
#include "graph/gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "graph/executor.h"
#include "graph/expert_linear.h"
#include "graph/head_loss.h"
#include "graph/ops/grad_ops.h"
#include "graph/testing/gradient_check.h"
#include "kernels/quant/quant.h"

namespace butterfly::graph {
namespace {

using testing::GradientCheck;
using Inputs = std::vector<ValueId>;

TEST(Gradients, Linear) {
  GradientCheck c;
  c.input({3, 5});
  const Parameter &w = c.parameter({4, 5}), &bias = c.parameter({4});
  c.check([&](Graph& g, const Inputs& x) { return linear(g, x[0], w, bias, "y"); });
}

TEST(Gradients, LinearsThatShareTheirInputAndAWeight) {
  GradientCheck c;
  c.input({3, 5});
  const Parameter &w = c.parameter({5, 5}), &v = c.parameter({5, 5});
  c.check([&](Graph& g, const Inputs& x) {
    const ValueId a = linear(g, x[0], w, {}, "a"), b = linear(g, x[0], v, {}, "b");
    return add(g, add(g, linear(g, a, w, {}, "c"), b, "d"), x[0], "e");
  });
}

TEST(Gradients, SumsAndProducts) {
  GradientCheck c;
  c.input({3, 7});
  c.input({3, 7});
  const Parameter& bias = c.parameter({7});
  c.check([&](Graph& g, const Inputs& x) {
    const ValueId sum = add_scaled(g, scale(g, x[0], 1.5f, "scale"), x[1], -0.75f, "add_scaled");
    return mul(g, add_bias(g, sum, bias, "bias"), add(g, x[0], x[1], "add"), "mul");
  });
}

TEST(Gradients, FunctionsOfSingleValues) {
  using Function = ValueId (*)(Graph&, ValueId, std::string);
  for (const Function function : {Function(silu), Function(gelu)}) {
    GradientCheck c;
    c.input({4, 9}, 2);
    c.check([&](Graph& g, const Inputs& x) { return function(g, x[0], "f"); });
  }
  for (const float mean : {1.0f, -1.0f}) {  // away from the corner
    GradientCheck c;
    c.input({2, 9}, 0.1f, mean);
    c.check([&](Graph& g, const Inputs& x) { return relu(g, x[0], "relu"); });
  }
  GradientCheck c;
  c.input({4, 9}, 3);
  c.check([&](Graph& g, const Inputs& x) { return soft_cap(g, x[0], 2.0f, "cap"); });
}

TEST(Gradients, Gated) {
  using Gated = ValueId (*)(Graph&, ValueId, ValueId, std::string);
  for (const Gated gated : {Gated(swiglu), Gated(geglu)}) {
    GradientCheck c;
    c.input({3, 11}, 1.5f);
    c.input({3, 11}, 1.5f);
    c.check([&](Graph& g, const Inputs& x) { return gated(g, x[0], x[1], "gated"); });
  }
}

TEST(Gradients, Norms) {
  for (const int64_t group : {12, 4}) {  // rows, and heads of rows
    GradientCheck c;
    c.input({5, 12}, 1, 0.3f);
    const Parameter& w = c.parameter({group}, 0.3f, 1);
    c.check([&](Graph& g, const Inputs& x) { return rms_norm(g, x[0], w, 1e-5f, "norm"); });
    // Groups with weights of their own, once in a row and several times.
    c.check([&](Graph& g, const Inputs& x) { return rms_norm(g, x[0], w, 1e-5f, "norm", 2); });
  }
  GradientCheck c;
  c.input({5, 12}, 1, 0.3f);
  const Parameter &w = c.parameter({12}, 0.3f, 1), &bias = c.parameter({12});
  c.check([&](Graph& g, const Inputs& x) { return layer_norm(g, x[0], w, bias, 1e-5f, "norm"); });
}

TEST(Gradients, Rope) {
  for (const auto layout : {kernels::RopeLayout::kInterleaved, kernels::RopeLayout::kHalfSplit}) {
    const kernels::Rope rope_angles(kernels::RopeParams{.head_dim = 8, .rotated = 6});
    GradientCheck c;
    c.input({3, 16});
    c.ids({0, 1, 7});
    c.check([&](Graph& g, const Inputs& x) {
      const ValueId rotations = rope_rotations(g, x[1], rope_angles, "rotations");
      return rope(g, rope(g, x[0], rotations, layout, 8, "once"), rotations, layout, 8, "twice");
    });
  }
}

TEST(Gradients, CausalAttention) {
  struct Case {
    size_t heads, kv_heads, length;
    kernels::AttentionParams params;
  };
  for (const Case& it : {Case{2, 2, 5, {.scale = 0.7f}}, Case{4, 2, 3, {.scale = 0.5f}},
                         Case{2, 1, 6, {.scale = 0.6f, .soft_cap = 1.5f, .window = 3}}}) {
    GradientCheck c;
    const auto dim = static_cast<int64_t>(4), rows = static_cast<int64_t>(2 * it.length);
    c.input({rows, static_cast<int64_t>(it.heads) * dim}, 1);
    c.input({rows, static_cast<int64_t>(it.kv_heads) * dim}, 1);
    c.input({rows, static_cast<int64_t>(it.kv_heads) * dim}, 1);
    const AttentionShape shape{0, it.heads, it.kv_heads, 4, it.params};
    c.check([&](Graph& g, const Inputs& x) {
      return causal_attention(g, x[0], x[1], x[2], shape, it.length, "attention");
    });
  }
}

// Documents of a window do not see each other.
TEST(Gradients, CausalAttentionOfSeveralDocuments) {
  GradientCheck c;
  for (int i = 0; i < 3; ++i) c.input({12, 4}, 1);
  c.ids({0, 1, 2, 0, 0, 1, 0, 1, 2, 3, 4, 0});
  const AttentionShape shape{0, 2, 2, 2, {.scale = 0.7f}};
  c.check([&](Graph& g, const Inputs& x) {
    return causal_attention(g, x[0], x[1], x[2], shape, 6, "attention", x[3]);
  });
}

// More rows than one block of queries and one page.
TEST(Gradients, LongCausalAttention) {
  GradientCheck c;
  for (int i = 0; i < 3; ++i) c.input({70, 2}, 1);
  const AttentionShape shape{0, 1, 1, 2, {.scale = 0.7f}};
  c.check([&](Graph& g, const Inputs& x) {
    return causal_attention(g, x[0], x[1], x[2], shape, 70, "attention");
  });
}

TEST(Gradients, EmbeddingAndSelectedRows) {
  GradientCheck c;
  const Parameter& table = c.parameter({5, 6});
  c.ids({3, 0, 3, 4});
  c.ids({2, 2, 0});
  c.check([&](Graph& g, const Inputs& x) {
    return select_rows(g, embedding(g, x[0], table, "embedding"), x[1], "rows");
  });
}

TEST(Gradients, CrossEntropy) {
  GradientCheck c;
  c.input({4, 6}, 2);
  c.ids({5, 0, kNoTarget, 2});
  c.input({1}, 0, 0.5f);
  c.check_loss([&](Graph& g, const Inputs& x) { return cross_entropy(g, x[0], x[1], x[2], "loss").loss; });
}

// Logits that are capped, of weights that learn or are packed.
TEST(Gradients, HeadOfAnyKind) {
  for (const bool packed : {false, true})
    for (const float cap : {0.0f, 1.5f}) {
      GradientCheck c;
      c.input({4, 6}, 2);
      c.ids({5, 0, kNoTarget, 2});
      c.input({1}, 0, 0.5f);
      GradientCheck other;  // has weights that nobody asks the gradient of
      const Parameter& values = (packed ? other : c).parameter({37, 6}, 1);
      Parameter frozen{.name = "head", .value = {}, .packed = kernels::PackedMatrix(values.value)};
      const Parameter& head = packed ? frozen : values;
      c.check_loss([&](Graph& g, const Inputs& x) {
        return head_loss(g, x[0], head, x[1], x[2], {.cap = cap}, "loss").loss;
      });
      const Parameter& bias = c.parameter({37}, 1);
      c.check_loss([&](Graph& g, const Inputs& x) {
        const HeadLoss options{.cap = cap, .product_scale = 0.7f, .bias = &bias};
        return head_loss(g, x[0], head, x[1], x[2], options, "loss").loss;
      });
    }
}

// An adapter beside one that is frozen.
TEST(Gradients, HeadWithAnAdapter) {
  for (const bool packed : {false, true})
    for (const float cap : {0.0f, 1.5f}) {
      GradientCheck c;
      c.input({4, 6}, 2);
      c.ids({5, 0, kNoTarget, 2});
      c.input({1}, 0, 0.5f);
      GradientCheck other;
      const Parameter &values = other.parameter({37, 6}, 1), &a = c.parameter({3, 6}),
                      &b = c.parameter({37, 3});
      Parameter& bias = other.parameter({37}, 1);
      bias.trainable = false;
      const Parameter frozen{
          .name = "head",
          .value = packed ? Tensor() : values.value,
          .packed = packed ? kernels::PackedMatrix(values.value) : kernels::PackedMatrix()};
      const auto build = [&](Graph& g, const Inputs& x) {
        const ValueId low = linear(g, x[0], a, {}, "a");
        const HeadLoss options{
            .cap = cap, .product_scale = 0.7f, .bias = &bias, .low = low, .b = &b, .scale = 1.5f};
        return head_loss(g, x[0], frozen, x[1], x[2], options, "loss").loss;
      };
      c.check_loss(build);
    }
}

// Plain matrices of experts learn, beside packed ones or alone.
TEST(Gradients, MatricesOfExperts) {
  GradientCheck c(3);
  c.input({5, 8}, 1);
  const Parameter &router = c.parameter({6, 8}, 1), &a = c.parameter({6, 3, 8}), &b = c.parameter({6, 7, 3});
  const auto build = [&](Graph& g, const Inputs& x) {
    const MoeRoute to = moe_route(g, linear(g, x[0], router, {}, "router"), {.used = 2}, {}, {}, "route");
    const ValueId low = expert_linear(g, gather_slots(g, x[0], to, "slots"), to, a, 0, "a");
    return moe_combine(g, expert_linear(g, low, to, b, 0, "b"), to, "combine");
  };
  c.check(build, 0.002f);
  EXPECT_EQ(c.gradients_of(build, 1), c.gradients_of(build, 3));
}

ExpertParameter experts_of(size_t count, size_t rows, size_t cols, float phase) {
  ExpertParameter parameter{.name = "experts", .experts = {}};
  for (size_t e = 0; e < count; ++e) {
    Tensor w = Tensor::zeros(DType::kF32, {static_cast<int64_t>(rows), static_cast<int64_t>(cols)});
    for (size_t i = 0; i < rows * cols; ++i)
      w.data<float>()[i] = 0.5f * std::sin(phase + static_cast<float>(e * rows * cols + i));
    parameter.experts.emplace_back(w);
  }
  return parameter;
}

// Rows go to experts, which are frozen; rows and router learn of it.
TEST(Gradients, MixtureOfExperts) {
  const ExpertParameter gate = experts_of(6, 10, 8, 0), up = experts_of(6, 10, 8, 1),
                        down = experts_of(6, 8, 10, 2);
  for (const RouteBy by :
       {RouteBy::kSoftmax, RouteBy::kSigmoid, RouteBy::kSoftmaxOfChosen, RouteBy::kSqrtSoftplus})
    for (const bool normalise : {false, true}) {
      GradientCheck c(3);
      c.input({5, 8}, 1);
      const Parameter& router = c.parameter({6, 8}, 1);
      const RouteOptions options{.used = 2, .by = by, .normalise = normalise, .scale = 1.5f};
      const auto build = [&](Graph& g, const Inputs& x) {
        const MoeRoute to = moe_route(g, linear(g, x[0], router, {}, "router"), options, {}, {}, "route");
        const ExpertParameter *both[] = {&gate, &up}, *last = &down;
        const auto inner = expert_matmul(g, gather_slots(g, x[0], to, "slots"), to, both, "gate");
        const ValueId hidden = swiglu(g, inner[0], inner[1], "swiglu");
        return moe_combine(g, expert_matmul(g, hidden, to, {&last, 1}, "down")[0], to, "combine");
      };
      c.check(build, 0.002f);
      EXPECT_EQ(c.gradients_of(build, 1), c.gradients_of(build, 3));
    }
}

TEST(Gradients, Gate) {
  for (const int64_t cols : {1, 6}) {
    GradientCheck c;
    c.input({4, 6}, 1);
    c.input({4, cols}, 1);
    c.check([&](Graph& g, const Inputs& x) { return gate(g, x[0], x[1], "gate"); });
  }
}

// The head reads the embedding's table.
TEST(Gradients, TiedHead) {
  GradientCheck c;
  const Parameter& table = c.parameter({7, 6}, 1);
  Parameter head{.name = "head", .value = table.value, .trainable = true};
  c.ids({3, 0, 3, 4});
  c.ids({0, 3, 4, kNoTarget});
  c.input({1}, 0, 0.25f);
  const Parameter& w = c.parameter({6, 6});
  c.check_loss([&](Graph& g, const Inputs& x) {
    const ValueId rows = linear(g, embedding(g, x[0], table, "embedding"), w, {}, "w");
    return linear_cross_entropy(g, rows, head, x[1], x[2], true, "loss").loss;
  });
}

TEST(Gradients, DropoutDrawsTheSameTwice) {
  GradientCheck c;
  c.input({8, 32});
  c.ids({12345, 678});
  c.check([&](Graph& g, const Inputs& x) { return dropout(g, x[0], x[1], 0.25f, 3, "dropout"); });
  Graph g;
  const ValueId x = g.input("x", {Elem::kF32, {100, 100}}), key = g.input("key", {Elem::kI32, {2}});
  const ValueId y = dropout(g, x, key, 0.25f, 0, "dropout");
  g.mark_output(y);
  Arena arena;
  ThreadPool pool(1);
  Executor run(std::move(g), arena, pool);
  std::fill_n(reinterpret_cast<float*>(run.input(x)), 10000, 3.0f);
  reinterpret_cast<int32_t*>(run.input(key))[0] = 1;
  reinterpret_cast<int32_t*>(run.input(key))[1] = 2;
  run.run(nullptr);
  size_t dropped = 0;
  for (size_t i = 0; i < 10000; ++i) {
    dropped += run.output(y)[i] == 0;
    ASSERT_TRUE(run.output(y)[i] == 0 || run.output(y)[i] == 4.0f);
  }
  EXPECT_NEAR(static_cast<double>(dropped), 2500, 150);
}

// Through packed weights the gradient is that of the same numbers as floats.
TEST(Gradients, PackedWeightsAreFrozen) {
  for (const DType dtype : {DType::kF32, DType::kQ8_0, DType::kQ4_0}) {
    GradientCheck c;
    c.input({3, 64});
    Tensor stored = Tensor::zeros(dtype, {96, 64}), plain = Tensor::zeros(DType::kF32, {96, 64});
    std::vector<float> floats(96 * 64);
    for (size_t i = 0; i < floats.size(); ++i) floats[i] = std::sin(static_cast<float>(i));
    kernels::from_float(dtype, floats.data(), stored.raw(), floats.size());
    kernels::to_float(dtype, stored.raw(), plain.data<float>(), floats.size());
    const Parameter packed{.name = "w", .value = {}, .packed = kernels::PackedMatrix(stored)};
    const Parameter same{.name = "w", .value = plain};
    const auto through_packed = [&](Graph& g, const Inputs& x) {
      const Parameter* weights[] = {&packed};
      const auto kind = packed.packed.act();
      const ValueId rows = kind == kernels::ActKind::kF32 ? x[0] : quantize_rows(g, x[0], kind, "q8");
      return matmul(g, rows, weights, "y")[0];
    };
    const auto a = c.gradients_of(through_packed, 1), b = c.gradients_of(through_packed, 2);
    EXPECT_EQ(a, b);
    const auto want =
        c.gradients_of([&](Graph& g, const Inputs& x) { return linear(g, x[0], same, {}, "y"); }, 1);
    ASSERT_EQ(a.size(), want.size());
    double distance = 0, size = 0;  // the losses differ as the rounded products do
    for (size_t i = 0; i < a.size(); ++i) {
      distance += std::pow(a[i] - want[i], 2.0);
      size += std::pow(want[i], 2.0);
    }
    EXPECT_LT(std::sqrt(distance / size), dtype == DType::kF32 ? 1e-6 : 0.02) << dtype_name(dtype);
  }
}

// A block with all the parts of a transformer, large enough that every op forks.
TEST(Gradients, OneResultOnAnyNumberOfThreads) {
  GradientCheck c;
  const Parameter &norm = c.parameter({64}, 0.1f, 1), &bias = c.parameter({64}),
                  &table = c.parameter({300, 64}), &wq = c.parameter({64, 64}, 0.1f),
                  &up = c.parameter({256, 64}, 0.1f), &gate = c.parameter({256, 64}, 0.1f),
                  &down = c.parameter({64, 256}, 0.1f), &b = c.parameter({64});
  std::vector<int32_t> ids(384), positions(384);
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>(i * 7 % 300 / 3);
    positions[i] = static_cast<int32_t>(i % 96);
  }
  c.ids(ids);
  c.ids(positions);
  const kernels::Rope angles(kernels::RopeParams{.head_dim = 16});
  const auto build = [&](Graph& g, const Inputs& in) {
    const ValueId rotations = rope_rotations(g, in[1], angles, "rotations");
    const ValueId x = embedding(g, in[0], table, "embedding");
    const ValueId n = layer_norm(g, x, norm, bias, 1e-5f, "norm");
    const ValueId q =
        rope(g, linear(g, n, wq, b, "q"), rotations, kernels::RopeLayout::kHalfSplit, 16, "rope");
    const AttentionShape shape{0, 4, 4, 16, {.scale = 0.25f}};
    const ValueId y = add(g, causal_attention(g, q, n, n, shape, 96, "attention"), x, "residual");
    const ValueId m = rms_norm(g, y, norm, 1e-5f, "norm2");
    const ValueId f = swiglu(g, linear(g, m, gate, {}, "gate"), linear(g, m, up, {}, "up"), "swiglu");
    return add(g, linear(g, gelu(g, f, "gelu"), down, {}, "down"), y, "out");
  };
  const auto one = c.gradients_of(build, 1);
  for (const float value : one) ASSERT_TRUE(std::isfinite(value));
  for (const size_t threads : {2, 3, 4}) {
    const auto many = c.gradients_of(build, threads);
    ASSERT_EQ(many.size(), one.size());
    for (size_t i = 0; i < one.size(); ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(many[i]), std::bit_cast<uint32_t>(one[i])) << threads << " at " << i;
  }
}

TEST(Gradients, FinishedIsCalledOnceForEachAndAfterTheLastReader) {
  GradientCheck c;
  const Parameter &table = c.parameter({7, 6}), &w = c.parameter({6, 6});
  Parameter head{.name = "head", .value = table.value, .trainable = true};
  Graph g;
  const ValueId ids = g.input("ids", {Elem::kI32, {4}}), targets = g.input("targets", {Elem::kI32, {4}}),
                factor = g.input("factor", {Elem::kF32, {1}});
  const ValueId x = linear(g, embedding(g, ids, table, "embedding"), w, {}, "w");
  const ValueId loss = linear_cross_entropy(g, x, head, targets, factor, true, "loss").loss;
  std::vector<std::string> finished;
  const Gradients result = gradients(g, loss, {.finished = [&](Graph& graph, const ParameterGradient& it) {
                                       finished.push_back(it.parameter->name);
                                       graph.bind(it.value);
                                     }});
  EXPECT_THAT(finished, ::testing::ElementsAre("p1", "p0"));
  EXPECT_EQ(result.parameters.size(), 2u);
  EXPECT_EQ(g.slot_count(), 2u);
  // The head's part and the embedding's rows share the bound memory: nothing of the table's size is planned.
  for (const auto& node : g.nodes())
    if (node.op->name == "scatter_rows_add") {
      EXPECT_EQ(g.values()[node.inputs[0].index].slot, g.values()[node.outputs[0].index].slot);
    }
}

TEST(Gradients, ErrorsAreInWords) {
  Graph g;
  GradientCheck c;
  const Parameter& w = c.parameter({4, 4});
  const ValueId x = g.input("x", {Elem::kF32, {2, 4}}), factor = g.input("factor", {Elem::kF32, {1}});
  const ValueId loss = mse(g, x, x, factor, "loss");
  EXPECT_THROW(gradients(g, loss), Error);  // nothing to train
  Graph h;
  const ValueId y = h.input("y", {Elem::kF32, {2, 4}}), one = h.input("factor", {Elem::kF32, {1}});
  const auto logits = linear(h, y, w, {}, "logits");
  const ValueId out = mse(h, causal_conv(h, logits, w, {}, {}, false, "conv"), y, one, "loss");
  try {
    gradients(h, out);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[causal_conv] conv: this operation has no gradient");
  }
}

// A graph cut in two: with the gradient that the whole one has at the cut, both parts have its gradients, bit
// for bit, also when the backward pass runs long after the forward pass.
TEST(Gradients, OfAPartFromASeed) {
  constexpr int64_t kRows = 5, kCols = 24;
  std::vector<Parameter> weights;
  for (int i = 0; i < 3; ++i) {
    Parameter w{.name = "w" + std::to_string(i),
                .value = Tensor::zeros(DType::kF32, {kCols, kCols}),
                .trainable = true};
    for (int64_t k = 0; k < w.value.count(); ++k)
      w.value.data<float>()[k] = std::sin(static_cast<float>(k * 7 + i * 13)) / 4;
    weights.push_back(std::move(w));
  }
  // Two readers of what crosses the cut.
  const auto block = [&](Graph& g, ValueId x, size_t i) {
    return add(g, gelu(g, linear(g, x, weights[i], {}, "l"), "f"), x, "r");
  };
  const auto input = [](Graph& g, const char* name) { return g.input(name, {Elem::kF32, {kRows, kCols}}); };
  const auto loss_of = [&](Graph& g, ValueId x, ValueId targets, ValueId factor) {
    return cross_entropy(g, x, targets, factor, "loss").loss;
  };
  ThreadPool pool(1);
  std::vector<std::vector<float>> found[2];
  const auto fill = [&](Executor& e, ValueId x, float base) {
    auto* to = reinterpret_cast<float*>(e.input(x));
    for (int64_t i = 0; i < kRows * kCols; ++i) to[i] = std::cos(base + static_cast<float>(i));
  };
  const auto fill_targets = [&](Executor& e, ValueId targets, ValueId factor) {
    for (int32_t i = 0; i < kRows; ++i) reinterpret_cast<int32_t*>(e.input(targets))[i] = i * 3;
    *reinterpret_cast<float*>(e.input(factor)) = 0.2f;
  };
  const auto floats = [](const Executor& e, ValueId v) {
    const float* at = e.output(v);
    return std::vector<float>(at, at + e.graph().type(v).bytes() / sizeof(float));
  };
  const ValueType targets_type{Elem::kI32, {kRows}}, factor_type{Elem::kF32, {1}};
  {
    Graph g;
    const ValueId x = input(g, "x"), t = g.input("t", targets_type), f = g.input("f", factor_type);
    const Gradients all =
        gradients(g, loss_of(g, block(g, block(g, block(g, x, 0), 1), 2), t, f), {.inputs = {x}});
    for (const auto& it : all.parameters) g.mark_output(it.value);
    g.mark_output(all.inputs[0]);
    Arena arena;
    Executor e(std::move(g), arena, pool);
    fill(e, x, 1);
    fill_targets(e, t, f);
    e.run(nullptr);
    for (const auto& it : all.parameters) found[0].push_back(floats(e, it.value));
    found[0].push_back(floats(e, all.inputs[0]));
  }
  {
    Graph first, second;
    const ValueId x = input(first, "x"), seed = input(first, "seed");
    const ValueId out = block(first, x, 0);
    first.mark_output(out);
    const size_t forward_nodes = first.nodes().size();
    const Gradients left = gradients(first, SeededGradient{out, seed}, {.inputs = {x}});
    const ValueId h = input(second, "h"), t = second.input("t", targets_type),
                  f = second.input("f", factor_type);
    const Gradients right =
        gradients(second, loss_of(second, block(second, block(second, h, 1), 2), t, f), {.inputs = {h}});
    for (const auto& it : left.parameters) first.mark_output(it.value);
    for (const auto& it : right.parameters) second.mark_output(it.value);
    first.mark_output(left.inputs[0]);
    second.mark_output(right.inputs[0]);
    Arena a, b;
    Executor begin(std::move(first), a, pool), end(std::move(second), b, pool);
    fill(begin, x, 1);
    begin.run_nodes(0, forward_nodes);
    std::memcpy(end.input(h), begin.output(out), kRows * kCols * sizeof(float));
    fill_targets(end, t, f);
    end.run(nullptr);
    std::memcpy(begin.input(seed), end.output(right.inputs[0]), kRows * kCols * sizeof(float));
    begin.run_nodes(forward_nodes, begin.graph().nodes().size());
    for (const auto& it : left.parameters) found[1].push_back(floats(begin, it.value));
    for (const auto& it : right.parameters) found[1].push_back(floats(end, it.value));
    found[1].push_back(floats(begin, left.inputs[0]));
  }
  EXPECT_EQ(found[0].size(), 4u);
  EXPECT_EQ(found[0], found[1]);
}

}  // namespace
}  // namespace butterfly::graph
