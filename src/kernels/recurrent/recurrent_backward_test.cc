// Recurrences backwards: against differences in double, then bit for bit against the plain loops.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/rng.h"
#include "kernels/recurrent/gated_delta_backward.h"
#include "kernels/recurrent/selective_state_backward.h"
#include "kernels/simd/target.h"

namespace butterfly::kernels {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

Floats floats(uint64_t seed, size_t count, float deviation = 1) {
  Floats values(count);
  for (size_t i = 0; i < count; ++i) values[i] = deviation * random_normal(seed, 1, i);
  return values;
}
Doubles doubles(const Floats& from) { return {from.begin(), from.end()}; }

double dot(const Doubles& a, const Floats& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * static_cast<double>(b[i]);
  return sum;
}

// The slope of `f` by each of `x`, by differences.
template <typename F>
Doubles slopes(Doubles x, F&& f) {
  Doubles found;
  constexpr double kStep = 1e-5;
  for (double& value : x) {
    const double kept = value;
    value = kept + kStep;
    const double above = f(x);
    value = kept - kStep;
    found.push_back((above - f(x)) / (2 * kStep));
    value = kept;
  }
  return found;
}

void expect_near(const Floats& found, const Doubles& wanted, const char* what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], wanted[i], 2e-5 * (1 + std::abs(wanted[i]))) << what << " " << i;
}

constexpr size_t kPanel = 16;
size_t at(size_t inner, size_t i, size_t j) { return j / kPanel * inner * kPanel + i * kPanel + j % kPanel; }

// One token of either recurrence, and the weights of what it gives in a sum.
struct Sample {
  size_t inner, outer;  // sides of the state
  Floats state, q, k, v, dout, slope;
  float decay = 0.7f, gate = 0.6f;
  Sample(size_t a, size_t b)
      : inner(a),
        outer(b),
        state(floats(1, a * b)),
        q(floats(2, a)),
        k(floats(3, a, 0.3f)),
        v(floats(4, b)),
        dout(floats(5, b)),
        slope(floats(6, a * b)) {}

  // The weighed sum of state and outputs behind the token.
  double delta(const Doubles& s, const Doubles& qs, const Doubles& ks, const Doubles& vs, double fade,
               double beta, double scale) const {
    Doubles next(s.size()), out(outer);
    for (size_t j = 0; j < outer; ++j) {
      double said = 0;
      for (size_t i = 0; i < inner; ++i) said += s[at(inner, i, j)] * fade * ks[i];
      for (size_t i = 0; i < inner; ++i) {
        next[at(inner, i, j)] = s[at(inner, i, j)] * fade + ks[i] * beta * (vs[j] - said);
        out[j] += next[at(inner, i, j)] * qs[i] * scale;
      }
    }
    return dot(next, slope) + dot(out, dout);
  }
  double selective(const Doubles& s, const Doubles& c, const Doubles& b, const Doubles& x, double fade,
                   double dt, double skip) const {
    Doubles next(s.size()), out(outer);
    for (size_t j = 0; j < outer; ++j) {
      out[j] = x[j] * skip;
      for (size_t i = 0; i < inner; ++i) {
        next[at(inner, i, j)] = s[at(inner, i, j)] * fade + b[i] * x[j] * dt;
        out[j] += next[at(inner, i, j)] * c[i];
      }
    }
    return dot(next, slope) + dot(out, dout);
  }
};

TEST(GatedDeltaBackward, IsTheSlopeOfTheToken) {
  const Sample t(5, 32);
  const DeltaShape shape{.key_dim = t.inner, .value_dim = t.outer, .scale = 0.5f};
  Floats slope = t.slope, dq(t.inner), dk(t.inner), dv(t.outer), spare(delta_spare_floats(shape));
  DeltaGradient to{t.dout.data(), dq.data(), dk.data(), dv.data(), 0, 0};
  gated_delta_backward(shape, t.state.data(), {t.q.data(), t.k.data(), t.v.data(), nullptr, t.decay, t.gate},
                       slope.data(), to, spare.data());
  const Doubles s = doubles(t.state), q = doubles(t.q), k = doubles(t.k), v = doubles(t.v);
  const double fade = t.decay, beta = t.gate;
  expect_near(slope, slopes(s, [&](const Doubles& x) { return t.delta(x, q, k, v, fade, beta, 0.5); }),
              "state");
  expect_near(dq, slopes(q, [&](const Doubles& x) { return t.delta(s, x, k, v, fade, beta, 0.5); }), "q");
  expect_near(dk, slopes(k, [&](const Doubles& x) { return t.delta(s, q, x, v, fade, beta, 0.5); }), "k");
  expect_near(dv, slopes(v, [&](const Doubles& x) { return t.delta(s, q, k, x, fade, beta, 0.5); }), "v");
  expect_near({to.ddecay, to.dbeta},
              slopes({fade, beta}, [&](const Doubles& x) { return t.delta(s, q, k, v, x[0], x[1], 0.5); }),
              "gates");
}

TEST(SelectiveStateBackward, IsTheSlopeOfTheToken) {
  const Sample t(5, 32);
  const SelectiveShape shape{.state_dim = t.inner, .head_dim = t.outer, .skip = 0.5f};
  Floats slope = t.slope, dc(t.inner), db(t.inner), dx(t.outer), spare(selective_spare_floats(shape));
  SelectiveGradient to{t.dout.data(), db.data(), dc.data(), dx.data(), 0, 0};
  selective_state_backward(shape, t.state.data(),
                           {t.k.data(), t.q.data(), t.v.data(), nullptr, t.decay, t.gate}, slope.data(), to,
                           spare.data());
  const Doubles s = doubles(t.state), c = doubles(t.q), b = doubles(t.k), x = doubles(t.v);
  const double fade = t.decay, dt = t.gate;
  expect_near(slope, slopes(s, [&](const Doubles& y) { return t.selective(y, c, b, x, fade, dt, 0.5); }),
              "state");
  expect_near(dc, slopes(c, [&](const Doubles& y) { return t.selective(s, y, b, x, fade, dt, 0.5); }), "c");
  expect_near(db, slopes(b, [&](const Doubles& y) { return t.selective(s, c, y, x, fade, dt, 0.5); }), "b");
  expect_near(dx, slopes(x, [&](const Doubles& y) { return t.selective(s, c, b, y, fade, dt, 0.5); }), "x");
  expect_near({to.ddecay, to.ddt},
              slopes({fade, dt}, [&](const Doubles& y) { return t.selective(s, c, b, x, y[0], y[1], 0.5); }),
              "gates");
}

// All that a token leaves behind, of the fast or the plain form.
Floats all_of(const Sample& t, bool delta, bool plain) {
  Floats slope = t.slope, first(t.inner, 1), second(t.inner, 2), third(t.outer), spare(32 * t.inner), gates;
  const DeltaShape delta_shape{t.inner, t.outer, 0.5f};
  const SelectiveShape selective_shape{t.inner, t.outer, 0.5f};
  if (delta) {
    DeltaGradient to{t.dout.data(), first.data(), second.data(), third.data(), 0, 0};
    (plain ? ref::gated_delta_backward : gated_delta_backward)(
        delta_shape, t.state.data(), {t.q.data(), t.k.data(), t.v.data(), nullptr, t.decay, t.gate},
        slope.data(), to, spare.data());
    gates = {to.ddecay, to.dbeta};
  } else {
    SelectiveGradient to{t.dout.data(), first.data(), second.data(), third.data(), 0, 0};
    (plain ? ref::selective_state_backward : selective_state_backward)(
        selective_shape, t.state.data(), {t.k.data(), t.q.data(), t.v.data(), nullptr, t.decay, t.gate},
        slope.data(), to, spare.data());
    gates = {to.ddecay, to.ddt};
  }
  for (const Floats& part : {first, second, third, gates})
    slope.insert(slope.end(), part.begin(), part.end());
  return slope;
}

TEST(RecurrentBackward, TheBitsOfThePlainLoop) {
  for_each_target([](const std::string& target) {
    for (const size_t inner : {1, 3, 16, 128})
      for (const size_t outer : {16, 32, 64, 80, 128, 144})
        for (const bool delta : {false, true}) {
          const Sample sample(inner, outer);
          EXPECT_EQ(all_of(sample, delta, false), all_of(sample, delta, true))
              << target << ": " << inner << " x " << outer << (delta ? " delta" : " selective");
        }
  });
}

}  // namespace
}  // namespace butterfly::kernels
