// Coefficients shared by the scalar (math.cc) and vector (math-inl.h) functions. Polynomials are minimax fits
// by Remez' exchange in 200-bit arithmetic, then rounded to float.
#pragma once

namespace butterfly::kernels::math {

// exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln(2) / 2.
inline constexpr float kLog2E = 0x1.715476p+0f;
inline constexpr float kLn2Hi = 0x1.62e430p-1f;
inline constexpr float kLn2Lo = -0x1.05c610p-29f;
// Adding this to |v| < 2^22 leaves round(v) in the low bits of the sum.
inline constexpr float kRoundMagic = 0x1.8p+23f;
// Outside of these exp is 0 or infinity; inside, n fits in the two exact factors 2^(n/2) * 2^(n - n/2).
inline constexpr float kExpMin = -104.0f;
inline constexpr float kExpMax = 89.0f;
// exp(r) = 1 + r + r^2 * (E2 + E3 r + ... + E6 r^4); relative error of the fit 2^-27.8.
inline constexpr float kE2 = 0x1.fffffcp-2f;
inline constexpr float kE3 = 0x1.555490p-3f;
inline constexpr float kE4 = 0x1.5558f4p-5f;
inline constexpr float kE5 = 0x1.123a6ap-7f;
inline constexpr float kE6 = 0x1.6a2356p-10f;

// tanh rounds to 1 above 9.02.
inline constexpr float kTanhMax = 10.0f;

// silu and gelu are -0 at and below this; keeps -infinity * 0 out.
inline constexpr float kGateMin = -200.0f;

// gelu, tanh form: x * sigmoid(x * (kGelu1 + kGelu3 * x^2)) with 2 * sqrt(2 / pi) and 0.044715 times that.
inline constexpr float kGelu1 = 0x1.988454p+0f;
inline constexpr float kGelu3 = 0x1.2444f2p-4f;

// gelu, exact form. Normal tail P(-t) = exp(-t^2 / 2) * H(u), u = (t - 4) / (t + 4), 0 <= t <= kErfMax;
// relative error of the fit 2^-25.2.
inline constexpr float kErfMax = 14.5f;
inline constexpr float kErfShift = 4.0f;
inline constexpr float kH[10] = {0x1.82b4bcp-4f,   -0x1.5cf97ep-3f, 0x1.fd750cp-4f,  -0x1.25b5f8p-4f,
                                 0x1.f9b34ap-6f,   -0x1.1675b2p-7f, 0x1.077b40p-11f, 0x1.58db64p-11f,
                                 -0x1.5ff474p-13f, -0x1.11d28ap-14f};

}  // namespace butterfly::kernels::math
