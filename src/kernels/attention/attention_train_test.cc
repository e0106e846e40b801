// Attention for training: against a plain formula in double and differences, then every target and thread
// count against the plain loops.
#include "kernels/attention/attention_train.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/testing/gradient_check.h"
#include "kernels/testing/shape_sweep.h"

namespace butterfly::kernels {
namespace {

using Floats = std::vector<float>;

// q, k, v in one fused projection, gradients likewise.
struct Fused {
  AttentionShape shape;
  size_t row() const { return (shape.heads + 2 * shape.kv_heads) * shape.dim; }
  size_t out_row() const { return shape.heads * shape.dim; }
  size_t rows() const { return shape.batch * shape.tokens; }
  size_t k_at() const { return shape.heads * shape.dim; }
  size_t v_at() const { return (shape.heads + shape.kv_heads) * shape.dim; }
};

Floats plain_forward(const Fused& f, const Floats& qkv) {
  Floats out(f.rows() * f.out_row());
  const AttentionRows q{qkv.data(), f.row()}, k{qkv.data() + f.k_at(), f.row()},
      v{qkv.data() + f.v_at(), f.row()};
  ref::attention_forward(f.shape, q, k, v, {out.data(), f.out_row()});
  return out;
}
Floats plain_backward(const Fused& f, const Floats& qkv, const Floats& dout) {
  Floats d(qkv.size());
  ref::attention_backward(f.shape, {qkv.data(), f.row()}, {qkv.data() + f.k_at(), f.row()},
                          {qkv.data() + f.v_at(), f.row()}, {dout.data(), f.out_row()}, {d.data(), f.row()},
                          {d.data() + f.k_at(), f.row()}, {d.data() + f.v_at(), f.row()});
  return d;
}

TEST(AttentionTrain, ForwardIsSoftmaxOfScores) {
  const Fused f{{.batch = 2, .tokens = 40, .heads = 4, .kv_heads = 2, .dim = 8, .scale = 0.35f}};
  const Floats qkv = random_floats(f.rows() * f.row(), 1), out = plain_forward(f, qkv);
  for (size_t b = 0; b < 2; ++b)
    for (size_t t = 0; t < 40; t += 13)
      for (size_t head = 0; head < 4; ++head) {
        std::vector<double> p(t + 1), want(8);
        double total = 0;
        for (size_t j = 0; j <= t; ++j) {
          for (size_t i = 0; i < 8; ++i)
            p[j] += double(qkv[(b * 40 + t) * f.row() + head * 8 + i]) *
                    qkv[(b * 40 + j) * f.row() + f.k_at() + head / 2 * 8 + i];
          total += p[j] = std::exp(p[j] * 0.35);
        }
        for (size_t i = 0; i < 8; ++i) {
          for (size_t j = 0; j <= t; ++j)
            want[i] += p[j] / total * qkv[(b * 40 + j) * f.row() + f.v_at() + head / 2 * 8 + i];
          EXPECT_NEAR(out[(b * 40 + t) * f.out_row() + head * 8 + i], want[i], 1e-5);
        }
      }
}

TEST(AttentionTrain, GradientsAreThoseOfTheForwardPass) {
  const Fused f{{.batch = 2, .tokens = 37, .heads = 4, .kv_heads = 2, .dim = 8, .scale = 0.35f}};
  Floats qkv = random_floats(f.rows() * f.row(), 1);
  const Floats dout = random_floats(f.rows() * f.out_row(), 2);
  const Floats gradient = plain_backward(f, qkv, dout);
  expect_gradient(qkv, gradient, dout, 2e-2f, 3e-3, 61, [&] { return plain_forward(f, qkv); });
}

TEST(AttentionTrain, EveryTargetIsThePlainLoop) {
  const Fused cases[] = {
      {{.batch = 1, .tokens = 1, .heads = 1, .kv_heads = 1, .dim = 1}},
      {{.batch = 3, .tokens = 33, .heads = 3, .kv_heads = 3, .dim = 20, .scale = 0.2f}},
      {{.batch = 2, .tokens = 64, .heads = 4, .kv_heads = 1, .dim = 16, .scale = 0.25f}},
      {{.batch = 1, .tokens = 101, .heads = 2, .kv_heads = 2, .dim = 64, .scale = 0.125f}},
      {{.batch = 0, .tokens = 5, .heads = 2, .kv_heads = 2, .dim = 4}},
  };
  for_each_target([&](const std::string& target) {
    for (const Fused& f : cases)
      for (size_t threads : {1, 2, 3}) {
        ThreadPool pool(threads);
        const Floats qkv = random_floats(f.rows() * f.row(), 1),
                     dout = random_floats(f.rows() * f.out_row(), 2);
        const Floats want = plain_forward(f, qkv), want_d = plain_backward(f, qkv, dout);
        Floats out(want.size()), d(want_d.size(), 9.0f);
        const AttentionRows q{qkv.data(), f.row()}, k{qkv.data() + f.k_at(), f.row()},
            v{qkv.data() + f.v_at(), f.row()};
        attention_forward(f.shape, q, k, v, {out.data(), f.out_row()}, pool);
        attention_backward(f.shape, q, k, v, {dout.data(), f.out_row()}, {d.data(), f.row()},
                           {d.data() + f.k_at(), f.row()}, {d.data() + f.v_at(), f.row()}, pool);
        ASSERT_EQ(first_difference(want.data(), out.data(), out.size()), out.size()) << target;
        ASSERT_EQ(first_difference(want_d.data(), d.data(), d.size()), d.size()) << target;
      }
  });
}

}  // namespace
}  // namespace butterfly::kernels
