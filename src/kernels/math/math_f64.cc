// The double functions of math.h. Taylor series far enough out that the rounding of double is what is left.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/math/math.h"

namespace butterfly::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// ln 2 in two parts; the first has 42 bits, so that its product with any exponent is exact.
constexpr double kLn2Hi64 = 0x1.62e42fefa3800p-1;
constexpr double kLn2Lo64 = 0x1.ef35793c76730p-45;
constexpr double kLog2E64 = 0x1.71547652b82fep+0;

// pi / 2 in three parts.
constexpr double kHalfPi1 = 0x1.921fb54442d18p+0;
constexpr double kHalfPi2 = 0x1.1a62633145c07p-54;
constexpr double kHalfPi3 = -0x1.f1976b7ed8fbcp-110;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;

// A value of about twice the precision: hi + lo, |lo| <= ulp(hi) / 2.
struct Double2 {
  double hi, lo;
};

// a + b without error.
Double2 two_sum(double a, double b) {
  const double sum = a + b;
  const double back = sum - a;
  return {sum, (a - (sum - back)) + (b - back)};
}

double exp2_int(int64_t n) { return std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52); }

// exp(x.hi + x.lo).
double exp_double2(Double2 x) {
  if (std::isnan(x.hi)) return x.hi;
  if (x.hi > 710) return kInfinity;
  if (x.hi < -746) return 0;
  const double n = std::rint(x.hi * kLog2E64);
  const double first = std::fma(-n, kLn2Hi64, x.hi);
  const Double2 r = two_sum(first, std::fma(-n, kLn2Lo64, x.lo));
  // exp(r) - 1 = r + r^2 / 2! + ... + r^14 / 14!
  double factorial = 87178291200.0;  // 14!
  double p = 1 / factorial;
  for (int i = 14; i >= 3; --i) {
    factorial /= i;
    p = std::fma(p, r.hi, 1 / factorial);
  }
  p = std::fma(r.hi * r.hi, p, r.hi);
  p = 1 + (p + std::fma(p, r.lo, r.lo));
  const auto k = static_cast<int64_t>(n);
  return p * exp2_int(k / 2) * exp2_int(k - k / 2);
}

// ln x for finite x > 0, to about 2^-60.
Double2 log_double2(double x) {
  int64_t e = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= 0x1p54;
    e = -54;
  }
  const auto bits = std::bit_cast<uint64_t>(x);
  e += static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffULL) | 0x3ff0000000000000ULL);
  if (m > 0x1.6a09e6p+0) {  // sqrt 2
    m *= 0.5;
    ++e;
  }
  // ln m = 2 atanh(s) = 2 (s + s^3 / 3 + ... + s^23 / 23), s = (m - 1) / (m + 1), |s| <= 0.172.
  const double top = m - 1;
  const Double2 bottom = two_sum(m, 1);
  const double s = top / bottom.hi;
  const double s_lo = (std::fma(-s, bottom.hi, top) - s * bottom.lo) / bottom.hi;
  const double z = s * s;
  double p = 1.0 / 23;
  for (int i = 21; i >= 3; i -= 2) p = std::fma(p, z, 1.0 / i);
  const double tail = 2 * std::fma(s * z, p, s_lo);
  const auto n = static_cast<double>(e);
  const Double2 sum = two_sum(n * kLn2Hi64, 2 * s);
  return two_sum(sum.hi, sum.lo + std::fma(n, kLn2Lo64, tail));
}

}  // namespace

double exp_f64(double x) { return exp_double2({x, 0}); }

double log_f64(double x) {
  if (!(x > 0)) return x == 0 ? -kInfinity : kNaN;
  return x == kInfinity ? x : log_double2(x).hi;
}

double pow_f64(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y || x < 0) return kNaN;
  if (x == 0 || x == kInfinity) return (x == 0) == (y < 0) ? kInfinity : 0;
  const Double2 log = log_double2(x);
  const double product = y * log.hi;
  if (product > 1000) return kInfinity;
  if (product < -1000) return 0;
  return exp_double2({product, std::fma(y, log.hi, -product) + y * log.lo});
}

void sincos_f64(double x, double* sine, double* cosine) {
  if (!(std::fabs(x) <= 0x1p30)) {
    *sine = *cosine = kNaN;
    return;
  }
  // x = n pi/2 + r, |r| <= pi/4. The first step is exact: the product has no bits below 2^-52 and the
  // difference is < 1.
  const double n = std::rint(x * kTwoOverPi);
  const double first = std::fma(-n, kHalfPi1, x);
  const double second = n * kHalfPi2;
  const Double2 sum = two_sum(first, -second);
  const Double2 r = two_sum(sum.hi, sum.lo - std::fma(n, kHalfPi2, -second) - n * kHalfPi3);
  const double z = r.hi * r.hi;

  // sin r = r - r^3/3! + ... + r^17/17!;  cos r = 1 - z/2! + ... + z^9/18!.
  double s = 1.0 / 355687428096000.0, c = -1.0 / 6402373705728000.0;
  double odd = 355687428096000.0, even = 6402373705728000.0;  // 17!, 18!
  for (int i = 17; i >= 5; i -= 2) {
    odd /= i * (i - 1);
    even /= (i + 1) * i;
    s = std::fma(s, z, (i % 4 == 1 ? -1 : 1) / odd);
    c = std::fma(c, z, (i % 4 == 1 ? 1 : -1) / even);
  }
  // s holds the factor of r^3, c that of z^2 and beyond: here cos r = 1 - z/2 + z^2 c'.
  const double sin_r = r.hi + std::fma(s * z, r.hi, r.lo);
  const double half = 0.5 * z;
  const double one_minus = 1 - half;
  const double cos_r = one_minus + (((1 - one_minus) - half) + (z * z * c - r.hi * r.lo));

  // Quarter turns: odd ones swap the two, signs follow.
  const auto quarter = static_cast<int64_t>(n) & 3;
  const bool swap = quarter & 1;
  const double sin_turned = swap ? cos_r : sin_r;
  const double cos_turned = swap ? sin_r : cos_r;
  *sine = quarter >= 2 ? -sin_turned : sin_turned;
  *cosine = quarter == 1 || quarter == 2 ? -cos_turned : cos_turned;
}

float softplus_f32(float x) {
  return x > 20.0f ? x : static_cast<float>(log_f64(1.0 + exp_f64(static_cast<double>(x))));
}

}  // namespace butterfly::kernels
