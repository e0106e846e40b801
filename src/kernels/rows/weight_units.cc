#include "kernels/rows/weight_units.h"

#include <bit>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows/weight_units.cc"
#include "hwy/foreach_target.h"
#include "kernels/math/math-inl.h"
#include "kernels/simd/vector_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void weigh_logits(const float* logits, size_t count, WeightScale scale, float* weights) {
  ref::weigh_logits(logits, count, scale, weights);
}
uint64_t sum_units(const float* logits, size_t count, float least, WeightScale scale) {
  return ref::sum_units(logits, count, least, scale);
}
void sum_unit_blocks(const float* logits, size_t count, size_t block, WeightScale scale, uint64_t* sums) {
  ref::sum_unit_blocks(logits, count, block, scale, sums);
}

#else

// x / 1 is x, and a division would take as long as half of exp.
template <bool kDivide>
struct Scaled {
  VF largest, temperature;
  explicit Scaled(WeightScale scale)
      : largest(hn::Set(DF(), scale.largest)), temperature(hn::Set(DF(), scale.temperature)) {}
  HWY_INLINE VF operator()(VF logit) const {
    const VF x = hn::Sub(logit, largest);
    return kDivide ? hn::Div(x, temperature) : x;
  }
};

// Calls f with the scaling for this temperature.
template <class F>
HWY_INLINE auto WithScale(WeightScale scale, F f) {
  return scale.temperature == 1.0f ? f(Scaled<false>(scale)) : f(Scaled<true>(scale));
}

// So many vectors at a time: one alone waits for its own results most of the time. As many as have room in
// the registers.
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
inline constexpr size_t kAbreast = 4;
#else
inline constexpr size_t kAbreast = 2;
#endif

// Exp() for x <= 0, to the bit where a weight has any units: below -32 there are none, and above it 2^n is
// one addition to the exponent.
template <size_t kN>
HWY_INLINE void ExpOfUnits(VF* x) {
  const DF d;
  const DI di;
  const VF magic = hn::Set(d, math::kRoundMagic);
  VF t[kN], q[kN];
#define BF_EACH \
  BF_UNROLL     \
  for (size_t p = 0; p < kN; ++p)
  BF_EACH x[p] = hn::Max(x[p], hn::Set(d, -32.0f));
  BF_EACH t[p] = Fma(x[p], hn::Set(d, math::kLog2E), magic);
  BF_EACH q[p] = hn::Sub(t[p], magic);
  BF_EACH x[p] = Fma(q[p], hn::Set(d, -math::kLn2Hi), x[p]);
  BF_EACH x[p] = Fma(q[p], hn::Set(d, -math::kLn2Lo), x[p]);
  // As Expm1Poly().
  BF_EACH q[p] = Fma(hn::Set(d, math::kE6), x[p], hn::Set(d, math::kE5));
  BF_EACH q[p] = Fma(q[p], x[p], hn::Set(d, math::kE4));
  BF_EACH q[p] = Fma(q[p], x[p], hn::Set(d, math::kE3));
  BF_EACH q[p] = Fma(q[p], x[p], hn::Set(d, math::kE2));
  BF_EACH x[p] = Fma(hn::Mul(x[p], x[p]), q[p], x[p]);
  BF_EACH x[p] = hn::Add(hn::Set(d, 1.0f), x[p]);
  // The low bits of t are n, and what is above them leaves to the left.
  BF_EACH x[p] = hn::BitCast(d, hn::Add(hn::BitCast(di, x[p]), hn::ShiftLeft<23>(hn::BitCast(di, t[p]))));
#undef BF_EACH
}

// Sums of units in 32-bit lanes: the upper and the lower 21 of a weight's 42 bits apart. Each lane is too
// large by its magic number's bits for every weight that was added; a weight of 0 adds nothing else.
class UnitSums {
  static_assert(kWeightUnitBits == 42);
  // Floats near these are 2^-21 and 2^-42 apart.
  static constexpr float kUpperMagic = 0x1.8p+2f, kLowerMagic = 0x1.8p-19f;

 public:
  // A weight has at most 2^21 upper units.
  static constexpr size_t kVectorsMax = 1024;

  HWY_INLINE UnitSums() : upper_(hn::Zero(DU())), lower_(upper_) {}
  HWY_INLINE void Add(VF weights) {
    const DF d;
    const VF upper_magic = hn::Set(d, kUpperMagic);
    const VF upper = hn::Add(weights, upper_magic);
    const VF rest = hn::Sub(weights, hn::Sub(upper, upper_magic));  // exact, as all here but the last
    const VF lower = hn::Add(rest, hn::Set(d, kLowerMagic));
    upper_ = hn::Add(upper_, hn::BitCast(DU(), upper));
    lower_ = hn::Add(lower_, hn::BitCast(DU(), lower));
  }
  // After `vectors` calls of Add(), at most kVectorsMax.
  HWY_INLINE uint64_t Total(size_t vectors) const {
    alignas(64) uint32_t upper[kVF], lower[kVF];
    const auto count = static_cast<uint32_t>(vectors);
    hn::Store(hn::Sub(upper_, hn::Set(DU(), count * std::bit_cast<uint32_t>(kUpperMagic))), DU(), upper);
    hn::Store(hn::Sub(lower_, hn::Set(DU(), count * std::bit_cast<uint32_t>(kLowerMagic))), DU(), lower);
    int64_t sum = 0;  // rests are signed
    for (size_t p = 0; p < kVF; ++p) sum += (int64_t{upper[p]} << 21) + static_cast<int32_t>(lower[p]);
    return static_cast<uint64_t>(sum);
  }

 private:
  hn::Vec<DU> upper_, lower_;
};

// Of at most kVectorsMax vectors.
template <class S>
HWY_INLINE uint64_t SumSome(const S& scaled, const float* logits, size_t count, VF from) {
  const DF d;
  UnitSums sums;
  size_t i = 0, vectors = 0;
  for (; i + kAbreast * kVF <= count; i += kAbreast * kVF, vectors += kAbreast) {
    VF w[kAbreast];
    BF_UNROLL
    for (size_t p = 0; p < kAbreast; ++p) w[p] = scaled(hn::LoadU(d, logits + i + p * kVF));
    ExpOfUnits<kAbreast>(w);
    BF_UNROLL
    for (size_t p = 0; p < kAbreast; ++p)
      sums.Add(hn::IfThenElseZero(hn::Ge(hn::LoadU(d, logits + i + p * kVF), from), w[p]));
  }
  for (size_t size; i < count; i += size, ++vectors) {
    size = HWY_MIN(kVF, count - i);
    const VF x = size == kVF ? hn::LoadU(d, logits + i) : LoadTail(logits + i, size);
    VF w = scaled(x);
    ExpOfUnits<1>(&w);
    // Zeros behind the end may be above the largest: their weights are dropped.
    sums.Add(hn::IfThenElseZero(hn::And(hn::Ge(x, from), hn::FirstN(d, size)), w));
  }
  return sums.Total(vectors);
}

template <class S>
HWY_INLINE uint64_t SumFrom(const S& scaled, const float* logits, size_t count, float least) {
  constexpr size_t kSome = UnitSums::kVectorsMax * kVF;
  const VF from = hn::Set(DF(), least);
  uint64_t sum = 0;
  for (size_t begin = 0; begin < count; begin += kSome)
    sum += SumSome(scaled, logits + begin, HWY_MIN(kSome, count - begin), from);
  return sum;
}

void weigh_logits(const float* logits, size_t count, WeightScale scale, float* weights) {
  WithScale(scale, [&](auto scaled) HWY_ATTR {
    Map([scaled](VF x) HWY_ATTR { return Exp(scaled(x)); }, weights, count, logits);
  });
}

uint64_t sum_units(const float* logits, size_t count, float least, WeightScale scale) {
  return WithScale(scale, [&](auto scaled) HWY_ATTR { return SumFrom(scaled, logits, count, least); });
}

void sum_unit_blocks(const float* logits, size_t count, size_t block, WeightScale scale, uint64_t* sums) {
  WithScale(scale, [&](auto scaled) HWY_ATTR {
    for (size_t begin = 0; begin < count; begin += block)
      *sums++ = SumFrom(scaled, logits + begin, HWY_MIN(block, count - begin),
                        -std::numeric_limits<float>::infinity());
  });
}

#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(weigh_logits);
HWY_EXPORT(sum_units);
HWY_EXPORT(sum_unit_blocks);
}  // namespace

void weigh_logits(const float* logits, size_t count, WeightScale scale, float* weights) {
  HWY_DYNAMIC_DISPATCH(weigh_logits)(logits, count, scale, weights);
}
uint64_t sum_units(const float* logits, size_t count, float least, WeightScale scale) {
  return HWY_DYNAMIC_DISPATCH(sum_units)(logits, count, least, scale);
}
void sum_unit_blocks(const float* logits, size_t count, size_t block, WeightScale scale, uint64_t* sums) {
  HWY_DYNAMIC_DISPATCH(sum_unit_blocks)(logits, count, block, scale, sums);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
