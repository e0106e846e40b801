// Elementary functions: accuracy of the scalar ones against long double, and the vector ones bit for bit
// against those.
#include <cmath>
#include <numbers>
#include <vector>

#include "kernels/digest/test_floats.h"
#include "kernels/math/math.h"
#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/math/math_test.cc"
#include "hwy/foreach_target.h"
#include "kernels/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
template <class F>
void map(F f, const float* in, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = f(in[i]);
}
#define BF_PICK(scalar, vector) [](float x) { return scalar(x); }
#else
template <class F>
void map(F f, const float* in, float* out, size_t count) {
  for (size_t i = 0; i < count; i += kVF) hn::StoreU(f(hn::LoadU(DF(), in + i)), DF(), out + i);
}
#define BF_PICK(scalar, vector) [](VF x) { return vector(x); }
#endif

void map_exp(const float* in, float* out, size_t n) { map(BF_PICK(exp_f32, Exp), in, out, n); }
void map_tanh(const float* in, float* out, size_t n) { map(BF_PICK(tanh_f32, Tanh), in, out, n); }
void map_sigmoid(const float* in, float* out, size_t n) { map(BF_PICK(sigmoid_f32, Sigmoid), in, out, n); }
void map_silu(const float* in, float* out, size_t n) { map(BF_PICK(silu_f32, Silu), in, out, n); }
void map_gelu(const float* in, float* out, size_t n) { map(BF_PICK(gelu_f32, Gelu), in, out, n); }
void map_gelu_erf(const float* in, float* out, size_t n) { map(BF_PICK(gelu_erf_f32, GeluErf), in, out, n); }
#undef BF_PICK

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

namespace butterfly::kernels {
HWY_EXPORT(map_exp);
HWY_EXPORT(map_tanh);
HWY_EXPORT(map_sigmoid);
HWY_EXPORT(map_silu);
HWY_EXPORT(map_gelu);
HWY_EXPORT(map_gelu_erf);

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNaN = std::numeric_limits<float>::quiet_NaN();

using MapFn = void (*)(const float*, float*, size_t);

// `pick` reads the dispatch table anew under each target.
void expect_vector_equals_scalar(MapFn (*pick)(), float (*scalar)(float)) {
  std::vector<float> in = float_sweep(49999);
  // Densely where the functions bend.
  for (float x = -12; x < 12; x += 0x1p-10f) in.push_back(x);
  for (float x = -106; x < 91; x += 0x1p-6f) in.push_back(x);
  while (in.size() % 16 != 0) in.push_back(0);
  std::vector<float> want(in.size()), got(in.size());
  for (size_t i = 0; i < in.size(); ++i) want[i] = scalar(in[i]);
  for_each_target([&](const std::string& name) {
    pick()(in.data(), got.data(), in.size());
    const size_t at = first_difference(want.data(), got.data(), in.size());
    ASSERT_EQ(at, in.size()) << name << " at " << in[at] << ": " << got[at] << ", scalar " << want[at];
  });
}

TEST(Math, VectorExpIsScalarExp) {
  expect_vector_equals_scalar([]() -> MapFn { return &HWY_DYNAMIC_DISPATCH(map_exp); }, exp_f32);
}
TEST(Math, VectorTanhIsScalarTanh) {
  expect_vector_equals_scalar([]() -> MapFn { return &HWY_DYNAMIC_DISPATCH(map_tanh); }, tanh_f32);
}
TEST(Math, VectorSigmoidIsScalarSigmoid) {
  expect_vector_equals_scalar([]() -> MapFn { return &HWY_DYNAMIC_DISPATCH(map_sigmoid); }, sigmoid_f32);
}
TEST(Math, VectorSiluIsScalarSilu) {
  expect_vector_equals_scalar([]() -> MapFn { return &HWY_DYNAMIC_DISPATCH(map_silu); }, silu_f32);
}
TEST(Math, VectorGeluIsScalarGelu) {
  expect_vector_equals_scalar([]() -> MapFn { return &HWY_DYNAMIC_DISPATCH(map_gelu); }, gelu_f32);
}
TEST(Math, VectorGeluErfIsScalarGeluErf) {
  expect_vector_equals_scalar([]() -> MapFn { return &HWY_DYNAMIC_DISPATCH(map_gelu_erf); }, gelu_erf_f32);
}

// Largest error in last places over a sweep of [low, high].
template <class F, class G>
double worst_ulp(F f, G truth, float low, float high) {
  double worst = 0;
  for (float x : float_sweep(19997)) {
    if (!(x >= low && x <= high)) continue;
    const long double want = truth(static_cast<long double>(x));
    if (want > 0x1.fffffep127L) continue;
    const double error = ulp_error(f(x), want);
    worst = error > worst ? error : worst;
  }
  return worst;
}

constexpr long double kPi = std::numbers::pi_v<long double>;
long double true_sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }
long double true_gelu(long double x) {
  return x * true_sigmoid(2 * std::sqrt(2 / kPi) * (x + 0.044715L * x * x * x));
}
long double true_gelu_erf(long double x) { return x / 2 * std::erfc(-x / std::sqrt(2.0L)); }

TEST(Math, FloatFunctionsKeepTheStatedAccuracy) {
  EXPECT_LT(worst_ulp(
                exp_f32, [](long double x) { return std::exp(x); }, -110, 90),
            1.0);
  EXPECT_LT(worst_ulp(
                tanh_f32, [](long double x) { return std::tanh(x); }, -20, 20),
            2.5);
  EXPECT_LT(worst_ulp(sigmoid_f32, true_sigmoid, -87, 100), 2.3);
  EXPECT_LT(worst_ulp(
                silu_f32, [](long double x) { return x * true_sigmoid(x); }, -80, 100),
            3.2);
  EXPECT_LT(worst_ulp(gelu_f32, true_gelu, -1, 100), 3.0);
  EXPECT_LT(worst_ulp(gelu_f32, true_gelu, -4, 100), 19);
  EXPECT_LT(worst_ulp(gelu_erf_f32, true_gelu_erf, -12, 100), 5.1);
  EXPECT_LT(worst_ulp(
                log_f32, [](long double x) { return std::log(x); }, 0x1p-149f, 0x1.fffffep127f),
            0.501);
  for (float x = -30; x < 0; x += 0x1p-8f)
    EXPECT_NEAR(gelu_f32(x), static_cast<double>(true_gelu(x)), 5e-8) << x;
}

TEST(Math, EdgesAreTheLimits) {
  EXPECT_EQ(exp_f32(0), 1);
  EXPECT_EQ(exp_f32(kInf), kInf);
  EXPECT_EQ(exp_f32(-kInf), 0);
  EXPECT_EQ(exp_f32(88.72284f), kInf);
  EXPECT_LT(exp_f32(88.72283f), kInf);
  EXPECT_EQ(exp_f32(-103.97f), 0x1p-149f);
  EXPECT_EQ(exp_f32(-103.98f), 0);
  EXPECT_EQ(tanh_f32(kInf), 1);
  EXPECT_EQ(tanh_f32(-kInf), -1);
  EXPECT_EQ(tanh_f32(0x1p-149f), 0x1p-149f);
  EXPECT_EQ(sigmoid_f32(-kInf), 0);
  EXPECT_EQ(sigmoid_f32(kInf), 1);
  EXPECT_EQ(sigmoid_f32(0), 0.5f);
  for (auto f : {silu_f32, gelu_f32, gelu_erf_f32}) {
    EXPECT_EQ(f(-kInf), 0);
    EXPECT_EQ(f(kInf), kInf);
    EXPECT_EQ(f(0), 0);
    EXPECT_EQ(f(50), 50);
  }
  for (auto f : {exp_f32, tanh_f32, sigmoid_f32, silu_f32, gelu_f32, gelu_erf_f32, log_f32})
    EXPECT_TRUE(std::isnan(f(kNaN)));
  EXPECT_EQ(log_f32(0), -kInf);
  EXPECT_EQ(log_f32(1), 0);
  EXPECT_EQ(log_f32(kInf), kInf);
  EXPECT_TRUE(std::isnan(log_f32(-1)));
  EXPECT_EQ(soft_cap_f32(1e9f, 30), 30);
  EXPECT_NEAR(soft_cap_f32(15, 30), 30 * std::tanh(0.5), 1e-5);
}

double ulp_error64(double got, long double want) {
  int exponent = 0;
  std::frexp(static_cast<double>(want), &exponent);
  return static_cast<double>(std::fabs(got - want) / std::ldexp(1.0L, exponent - 53));
}

// A point of [low, high] for each index.
double spread(uint64_t index, double low, double high) {
  return low + (high - low) * static_cast<double>(random_u64(3, 5, index) >> 11) * 0x1p-53;
}

TEST(Math, DoubleFunctionsKeepTheStatedAccuracy) {
  if (std::numeric_limits<long double>::digits < 64)
    GTEST_SKIP() << "long double is no wider than double here";
  for (uint64_t i = 0; i < 100000; ++i) {
    const double x = spread(i, -700, 700);
    ASSERT_LT(ulp_error64(exp_f64(x), std::exp(static_cast<long double>(x))), 1.0) << x;
    const double y = std::ldexp(spread(i, 0.5, 1), static_cast<int>(i % 2000) - 1000);
    ASSERT_LT(ulp_error64(log_f64(y), std::log(static_cast<long double>(y))), 0.6) << y;
    const double e = spread(i, -1, 1);
    ASSERT_LT(ulp_error64(pow_f64(1e6, e), std::pow(1e6L, static_cast<long double>(e))), 1.0) << e;
    ASSERT_LT(ulp_error64(pow_f64(3, 600 * e), std::pow(3.0L, static_cast<long double>(600 * e))), 3.3) << e;
  }
  for (double range : {0.5, 4.0, 1e3, 1e6, 0x1p30}) {
    for (uint64_t i = 0; i < 50000; ++i) {
      const double x = spread(i, -range, range);
      double sine = 0, cosine = 0;
      sincos_f64(x, &sine, &cosine);
      ASSERT_LT(ulp_error64(sine, std::sin(static_cast<long double>(x))), 0.9) << x;
      ASSERT_LT(ulp_error64(cosine, std::cos(static_cast<long double>(x))), 0.9) << x;
    }
  }
}

TEST(Math, DoubleEdgesAreTheLimits) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(exp_f64(0), 1);
  EXPECT_EQ(exp_f64(inf), inf);
  EXPECT_EQ(exp_f64(-inf), 0);
  EXPECT_EQ(exp_f64(-745.13), 0x1p-1074);
  EXPECT_EQ(log_f64(1), 0);
  EXPECT_EQ(log_f64(0), -inf);
  EXPECT_EQ(log_f64(inf), inf);
  EXPECT_TRUE(std::isnan(log_f64(-1)));
  EXPECT_EQ(log_f64(0x1p-1074), std::log(0x1p-1074));
  EXPECT_EQ(pow_f64(2, 10), 1024);
  EXPECT_EQ(pow_f64(0, 3), 0);
  EXPECT_EQ(pow_f64(0, -3), inf);
  EXPECT_EQ(pow_f64(inf, -1), 0);
  EXPECT_EQ(pow_f64(inf, 1), inf);
  EXPECT_EQ(pow_f64(5, 0), 1);
  EXPECT_EQ(pow_f64(2, inf), inf);
  EXPECT_EQ(pow_f64(2, -inf), 0);
  EXPECT_TRUE(std::isnan(pow_f64(-2, 2)));
  EXPECT_TRUE(std::isnan(pow_f64(2, std::nan(""))));
  double sine = 0, cosine = 0;
  sincos_f64(0, &sine, &cosine);
  EXPECT_EQ(sine, 0);
  EXPECT_EQ(cosine, 1);
  for (double x : {inf, -inf, static_cast<double>(kNaN), 0x1p31}) {
    sincos_f64(x, &sine, &cosine);
    EXPECT_TRUE(std::isnan(sine) && std::isnan(cosine)) << x;
  }
}

}  // namespace
}  // namespace butterfly::kernels
#endif  // HWY_ONCE
