// Elementary functions with the same bits on every machine: our own polynomials, explicit FMA, nothing from
// libm but what IEEE 754 rounds exactly (fma, rint, division).
//
// The float functions are the scalar twins of the vector ones in math-inl.h: the same operations in the same
// order. All of them: NaN gives NaN, infinities give the limit, subnormal results are kept. The double
// functions set up tables (rope) and are not meant for inner loops.
//
// Largest error against long double, in units of the last place of the result. Every 101st float was tried;
// math_test.cc holds these as bounds on a coarser sweep.
//
//   exp_f32       1.0   0 below -103.98, infinity from 88.72284 on
//   tanh_f32      2.5
//   sigmoid_f32   2.3   above -87, where results are normal
//   silu_f32      3.2   above -80
//   gelu_f32      3.0   above -1; in the tail the rounding of x^2 shows: 19 at -4.
//                       Below 0 never more than 5e-8 absolute
//   gelu_erf_f32  5.1   above -12
//   log_f32       0.501
//   exp_f64       1.0
//   log_f64       0.6
//   sincos_f64    0.9
//   pow_f64       1.0   for results in [1e-6, 1e6]; 3.3 at the ends of the range
#pragma once

namespace butterfly::kernels {

float exp_f32(float x);
float tanh_f32(float x);
float sigmoid_f32(float x);   // 1 / (1 + exp(-x))
float silu_f32(float x);      // x * sigmoid(x)
float gelu_f32(float x);      // tanh form: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
float gelu_erf_f32(float x);  // exact form: x/2 * (1 + erf(x / sqrt(2)))

// Of the normal distribution at t >= 0: e = exp(-t^2 / 2), and the probability of more than t.
struct NormalTail {
  float e, tail;
};
NormalTail normal_tail_f32(float t);

// cap * tanh(x / cap): scores stay in (-cap, cap).
float soft_cap_f32(float x, float cap);

// Negative arguments give NaN, zero gives -infinity.
float log_f32(float x);

// log(1 + exp(x)), through doubles; x itself above 20.
float softplus_f32(float x);

double exp_f64(double x);
double log_f64(double x);

// x^y for x >= 0; a negative x gives NaN. pow(x, 0) = pow(1, y) = 1.
double pow_f64(double x, double y);

// Sine and cosine of x radians. |x| up to 2^30; beyond that both are NaN.
void sincos_f64(double x, double* sine, double* cosine);

}  // namespace butterfly::kernels
