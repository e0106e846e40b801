#include "kernels/digest/digest_train.h"

#include <vector>

#include "kernels/conv2d/conv2d.h"
#include "kernels/digest/test_floats.h"
#include "kernels/elementwise/activation_backward.h"
#include "kernels/gemm/gemm.h"
#include "kernels/norm/norm_backward.h"
#include "kernels/optim/optimizer_update.h"
#include "kernels/pool2d/pool2d.h"
#include "kernels/recurrent/gated_delta_backward.h"
#include "kernels/recurrent/selective_state_backward.h"
#include "kernels/rows/cross_entropy.h"

namespace butterfly::kernels {
namespace {

using Floats = std::vector<float>;

// One pool for all; how many threads it has must not show.
ThreadPool& pool() {
  static ThreadPool threads(2);
  return threads;
}

}  // namespace

void digest_gemm(Digest& digest) {
  struct Shape {
    size_t m, n, k, shard_unit;
  };
  for (const Shape& s : {Shape{1, 70, 40, 0},
                         {7, 33, 900, 0},
                         {61, 50, 20, 0},
                         {30, 100, 257, 0},
                         {3, 37, 1000, 64},
                         {30, 100, 600, 256}})
    for (int variant = 0; variant < 4; ++variant) {
      const bool ta = variant & 1, tb = variant & 2;
      const Floats a = random_floats(s.m * s.k, 1), b = random_floats(s.n * s.k, 2),
                   bias = random_floats(s.n, 3);
      Floats c = random_floats(s.m * s.n, 4);
      gemm({.m = s.m,
            .n = s.n,
            .k = s.k,
            .a = {a.data(), ta ? s.m : s.k, ta},
            .b = {b.data(), tb ? s.k : s.n, tb},
            .c = c.data(),
            .c_stride = s.n,
            .accumulate = ta && s.shard_unit == 0,
            .epilogue = {bias.data(), static_cast<FusedActivation>(variant % 3), nullptr},
            .shard_unit = s.shard_unit},
           pool());
      digest.add(c);
    }
}

void digest_conv2d(Digest& digest) {
  const Conv2d plain{.batch = 3,
                     .in_h = 11,
                     .in_w = 13,
                     .in_c = 6,
                     .out_c = 34,
                     .kernel_h = 3,
                     .kernel_w = 3,
                     .pad_top = 1,
                     .pad_left = 1,
                     .pad_bottom = 1,
                     .pad_right = 1};
  Conv2d strided = plain, depthwise = plain, pointwise = plain;
  strided.stride_h = strided.stride_w = strided.dilation_w = 2;
  strided.groups = 2;
  depthwise.groups = depthwise.out_c = 6;
  pointwise.kernel_h = pointwise.kernel_w = 1;
  pointwise.pad_top = pointwise.pad_left = pointwise.pad_bottom = pointwise.pad_right = 0;
  for (const Conv2d& c : {plain, strided, depthwise, pointwise}) {
    const Floats x = random_floats(c.x_count(), 1), w = random_floats(c.w_count(), 2),
                 dy = random_floats(c.y_count(), 3), bias = random_floats(c.out_c, 4);
    Floats y(c.y_count()), dx(c.x_count()), dw(c.w_count()), dbias(c.out_c);
    conv2d_forward(c, x.data(), w.data(), {bias.data(), FusedActivation::kGelu, nullptr}, y.data(), pool());
    conv2d_backward_data(c, dy.data(), w.data(), dx.data(), pool());
    conv2d_backward_weights(c, x.data(), dy.data(), false, dw.data(), dbias.data(), pool());
    for (const Floats* f : {&y, &dx, &dw, &dbias}) digest.add(*f);
  }
}

void digest_pool2d(Digest& digest) {
  const Pool2d p{.batch = 2,
                 .in_h = 9,
                 .in_w = 11,
                 .channels = 19,
                 .kernel_h = 3,
                 .kernel_w = 3,
                 .stride_h = 2,
                 .stride_w = 2,
                 .pad_top = 1,
                 .pad_left = 1,
                 .pad_bottom = 1,
                 .pad_right = 1};
  const Floats x = random_floats(p.x_count(), 1), dy = random_floats(p.y_count(), 2);
  Floats y(p.y_count()), dx(p.x_count());
  std::vector<uint16_t> taps(p.y_count());
  max_pool2d_forward(p, x.data(), y.data(), taps.data(), pool());
  max_pool2d_backward(p, dy.data(), taps.data(), dx.data(), pool());
  digest.add(y);
  digest.add(dx);
  avg_pool2d_forward(p, x.data(), y.data(), pool());
  avg_pool2d_backward(p, dy.data(), dx.data(), pool());
  digest.add(y);
  digest.add(dx);
}

void digest_activation_backward(Digest& digest) {
  const Floats x = float_sweep(599993), dy = random_floats(x.size(), 1), up = random_floats(x.size(), 2);
  Floats dx(x.size()), dup(x.size());
  for (auto f :
       {relu_backward, sigmoid_backward, tanh_backward, silu_backward, gelu_backward, gelu_erf_backward}) {
    f(x.data(), dy.data(), dx.data(), x.size());
    digest.add(dx);
  }
  for (auto f : {swiglu_backward, geglu_backward}) {
    f(x.data(), up.data(), dy.data(), dx.data(), dup.data(), x.size());
    digest.add(dx);
    digest.add(dup);
  }
  softmax_backward(up.data(), dy.data(), dx.data(), 1000);
  digest.add(dx);
}

void digest_norm_backward(Digest& digest) {
  const size_t rows = 300, cols = 70;
  const Floats x = random_floats(rows * cols, 1), dy = random_floats(rows * cols, 2),
               w = random_floats(cols, 3);
  Floats dx(x.size()), dw(cols), db(cols), mean(cols), variance(cols);
  const NormGradient job{.rows = rows,
                         .cols = cols,
                         .eps = 1e-5f,
                         .x = x.data(),
                         .weight = w.data(),
                         .dy = dy.data(),
                         .dx = dx.data(),
                         .dweight = dw.data(),
                         .dbias = db.data()};
  const auto add = [&] {
    for (const Floats* f : {&dx, &dw, &db}) digest.add(*f);
  };
  layer_norm_backward(job, pool());
  add();
  rms_norm_backward(job, pool());
  add();
  const BatchNorm norm{rows, cols, 1e-5f, w.data(), w.data()};
  batch_norm_forward(norm, x.data(), mean.data(), variance.data(), dx.data(), pool());
  digest.add(dx);
  batch_norm_backward(norm, x.data(), mean.data(), variance.data(), dy.data(), dx.data(), dw.data(),
                      db.data(), false, pool());
  add();
}

void digest_norm_parts_backward(Digest& digest) {
  const size_t rows = 300, stride = 70, cols = 35;
  const Floats x = random_floats(rows * stride, 1), dy = random_floats(rows * stride, 2),
               w = random_floats(stride, 3);
  Floats dx(x.size()), dw(stride);
  for (size_t at = 0; at < stride; at += cols)
    rms_norm_backward({.rows = rows,
                       .cols = cols,
                       .stride = stride,
                       .eps = 1e-5f,
                       .x = x.data() + at,
                       .weight = w.data() + at,
                       .dy = dy.data() + at,
                       .dx = dx.data() + at,
                       .dweight = dw.data() + at},
                      pool());
  for (const Floats* f : {&dx, &dw}) digest.add(*f);
}

void digest_loss_and_optimizer(Digest& digest) {
  Floats logits = random_floats(5 * 1003, 1, 4.0f), losses(5);
  const int32_t targets[] = {0, 1002, kIgnoredTarget, 77, 500};
  cross_entropy_backward(logits.data(), 5, 1003, targets, 0.25f, losses.data(), pool());
  digest.add(logits);
  digest.add(losses);
  Floats p = random_floats(5000, 2), m = random_floats(5000, 3, 0.1f), v(5000);
  const Floats grad = random_floats(5000, 4);
  for (size_t i = 0; i < v.size(); ++i) v[i] = m[i] * m[i];
  adam_update({.decay = 0.1, .step = 7, .grad_scale = 0.5f}, grad.data(), p.data(), m.data(), v.data(), 5000,
              pool());
  sgd_update({.momentum = 0.9, .nesterov = true}, grad.data(), p.data(), m.data(), 5000, pool());
  for (const Floats* f : {&p, &m, &v}) digest.add(*f);
  float squares = 0;  // of one block
  sum_squares_blocks(p.data(), p.size(), &squares, pool());
  digest.add(static_cast<double>(squares));
}

void digest_recurrent_backward(Digest& digest) {
  for (const size_t inner : {1, 17, 128}) {
    const DeltaShape delta{.key_dim = inner, .value_dim = 80, .scale = 0.25f};
    const SelectiveShape selective{.state_dim = inner, .head_dim = 80, .skip = 0.3f};
    const Floats state = random_floats(delta.state_floats(), 3), dout = random_floats(80, 4);
    Floats slopes[2] = {random_floats(delta.state_floats(), 5), random_floats(delta.state_floats(), 5)};
    Floats spare(delta_spare_floats(delta));
    for (size_t n = 0; n < 3; ++n) {
      const Floats q = random_floats(inner, 10 + n), k = random_floats(inner, 20 + n, 0.1f),
                   v = random_floats(80, 30 + n);
      Floats first(inner), second(inner), third(80);
      DeltaGradient a{dout.data(), first.data(), second.data(), third.data(), 0, 0};
      gated_delta_backward(delta, state.data(), {q.data(), k.data(), v.data(), nullptr, 0.9f, 0.5f},
                           slopes[0].data(), a, spare.data());
      for (const Floats& part : {first, second, third, Floats{a.ddecay, a.dbeta}}) digest.add(part);
      SelectiveGradient b{dout.data(), first.data(), second.data(), third.data(), 0, 0};
      selective_state_backward(selective, state.data(), {q.data(), k.data(), v.data(), nullptr, 0.9f, 0.5f},
                               slopes[1].data(), b, spare.data());
      for (const Floats& part : {first, second, third, Floats{b.ddecay, b.ddt}}) digest.add(part);
    }
    for (const Floats& slope : slopes) digest.add(slope);
  }
}

}  // namespace butterfly::kernels
