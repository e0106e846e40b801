// Attention against the plain loops bit for bit, and against softmax(q k) v in double.
#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "kernels/simd/half.h"
#include "kernels/simd/target.h"
#include "tensor/buffer.h"

namespace butterfly::kernels {
namespace {

struct Case {
  DType dtype;
  size_t head_dim;
  size_t length;
  AttentionParams params;
  bool sinks = false;  // by position, so that queries of a call have several
  size_t latent = 0;   // values are the first so many of each key; 0: they are apart
};

float sink_of(const Case& c, size_t position) {
  return c.sinks ? 0.5f * static_cast<float>(position % 5) - 1.0f : -std::numeric_limits<float>::infinity();
}

// A filled cache with its pages in a scrambled order.
struct Cache {
  KvLayout layout;
  std::vector<float> keys, values;  // [length, head_dim]
  std::vector<uint32_t> ids;
  Buffer data;
  KvPages pages() const { return {data.data(), layout.page_bytes(), ids.data()}; }
};

Cache make_cache(const Case& c) {
  Cache cache{.layout = {c.dtype, c.head_dim, c.latent, c.latent > 0},
              .keys = {},
              .values = {},
              .ids = {},
              .data = {}};
  const size_t page_count = (c.length + kKvPage - 1) / kKvPage;
  for (size_t i = 0; i < page_count; ++i)
    cache.ids.push_back(static_cast<uint32_t>((i * 5 + 3) % (page_count + 7)));
  // 5 and page_count + 7 may share a factor; make the ids distinct in that case.
  for (size_t i = 0; i < page_count; ++i)
    for (size_t j = 0; j < i; ++j)
      if (cache.ids[i] == cache.ids[j]) cache.ids[i] = static_cast<uint32_t>(page_count + 7 + i);
  cache.data = Buffer::allocate((2 * page_count + 8) * cache.layout.page_bytes());
  for (std::byte& b : cache.data.bytes()) b = std::byte{0xff};  // NaN wherever nothing was stored
  for (size_t i = 0; i < c.length * c.head_dim; ++i) {
    cache.keys.push_back(random_normal(1, 1, i));
    cache.values.push_back(random_normal(1, 2, i));
  }
  for (size_t p = 0; p < c.length; ++p)
    kv_store(cache.layout, cache.data.data() + cache.ids[p / kKvPage] * cache.layout.page_bytes(),
             p % kKvPage, &cache.keys[p * c.head_dim], &cache.values[p * c.head_dim]);
  return cache;
}

using Attend = void (*)(const KvLayout&, const AttentionParams&, const KvPages&, const AttentionQuery*,
                        size_t, std::byte*);

// Outputs of queries at `positions`, `batch` at a time.
std::vector<uint32_t> run(const Case& c, const Cache& cache, const std::vector<size_t>& positions,
                          size_t batch, Attend attend_fn) {
  std::vector<float> q(positions.size() * c.head_dim), out(q.size(), NAN);
  for (size_t i = 0; i < positions.size(); ++i)
    for (size_t k = 0; k < c.head_dim; ++k) q[i * c.head_dim + k] = random_normal(2, positions[i], k);
  std::vector<AttentionQuery> queries;
  for (size_t i = 0; i < positions.size(); ++i)
    queries.push_back({&q[i * c.head_dim], &out[i * c.head_dim], positions[i], sink_of(c, positions[i])});
  const Buffer scratch = Buffer::allocate(attention_scratch_bytes(cache.layout));
  for (size_t i = 0; i < queries.size(); i += batch)
    attend_fn(cache.layout, c.params, cache.pages(), &queries[i], std::min(batch, queries.size() - i),
              scratch.data());
  std::vector<uint32_t> bits;
  for (float f : out) bits.push_back(std::bit_cast<uint32_t>(f));
  return bits;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (DType dtype : {DType::kF32, DType::kF16, DType::kQ8_0})
    for (size_t head_dim : {8, 24, 32, 64, 96, 128})
      for (size_t length : {1, 31, 32, 33, 100})
        for (const AttentionParams& params :
             {AttentionParams{0.2f, 0, 0}, AttentionParams{0.2f, 5.0f, 0}, AttentionParams{0.2f, 0, 40}})
          for (bool sinks : {false, true})
            if (kv_why_not({dtype, head_dim}) == nullptr) {
              all.push_back({dtype, head_dim, length, params, sinks});
              if (head_dim == 64 || head_dim == 96)
                all.push_back({dtype, head_dim, length, params, sinks, head_dim - 32});
              if (head_dim == 24) all.push_back({dtype, head_dim, length, params, sinks, 20});
            }
  return all;
}

TEST(Attention, EveryTargetEqualsThePlainLoopsAndBatchingChangesNothing) {
  for (const Case& c : cases()) {
    const Cache cache = make_cache(c);
    std::vector<size_t> positions;
    for (size_t p = c.length > 20 ? c.length - 20 : 0; p < c.length; ++p) positions.push_back(p);
    positions.push_back(c.length - 1);  // several heads at one position
    positions.push_back(c.length - 1);
    const auto want = run(c, cache, positions, 1, ref::attend);
    // Every size of a group, and halves made wide; where a cap or sinks come on top, some of them.
    const bool plain = c.params.soft_cap == 0 && !c.sinks && c.length > 1;
    for_each_target([&](const std::string& target) {
      for (size_t batch :
           plain ? std::vector<size_t>{1, 2, 3, 4, 5, 6, 7, 8, 22} : std::vector<size_t>{1, 5, 22})
        ASSERT_EQ(run(c, cache, positions, batch, attend), want)
            << target << " " << dtype_name(c.dtype) << " dim " << c.head_dim << " length " << c.length
            << " batch " << batch << " latent " << c.latent << " sinks " << c.sinks << " cap "
            << c.params.soft_cap << " window " << c.params.window;
    });
  }
}

TEST(Attention, IsSoftmaxOfTheScores) {
  for (const Case& c : cases()) {
    if (c.head_dim != 64) continue;
    const Cache cache = make_cache(c);
    const auto bits = run(c, cache, {c.length - 1}, 1, attend);
    std::vector<double> scores;
    const size_t first = c.params.window == 0 || c.length <= c.params.window ? 0 : c.length - c.params.window;
    const double sink = sink_of(c, c.length - 1);
    double max = std::max(-1e300, sink), total = 0;
    for (size_t j = first; j < c.length; ++j) {
      double s = 0;
      for (size_t k = 0; k < 64; ++k)
        s += double(random_normal(2, c.length - 1, k)) * cache.keys[j * 64 + k] * c.params.scale;
      if (c.params.soft_cap > 0) s = c.params.soft_cap * std::tanh(s / c.params.soft_cap);
      scores.push_back(s);
      max = std::max(max, s);
    }
    for (double& s : scores) total += s = std::exp(s - max);
    total += std::exp(sink - max);  // a key that is seen, and has no value
    const double tolerance = c.dtype == DType::kF32 ? 1e-5 : c.dtype == DType::kF16 ? 5e-3 : 5e-2;
    const std::vector<float>& values = c.latent > 0 ? cache.keys : cache.values;
    for (size_t k = 0; k < (c.latent > 0 ? c.latent : 64); ++k) {
      double want = 0;
      for (size_t j = first; j < c.length; ++j) want += scores[j - first] / total * values[j * 64 + k];
      EXPECT_NEAR(std::bit_cast<float>(bits[k]), want, tolerance)
          << dtype_name(c.dtype) << " length " << c.length;
    }
  }
}

TEST(Attention, CacheTypesThatDoNotFitSayWhy) {
  EXPECT_EQ(kv_why_not({DType::kF16, 80}), nullptr);
  EXPECT_NE(kv_why_not({DType::kQ8_0, 80}), nullptr);
  EXPECT_NE(kv_why_not({DType::kQ4_0, 64}), nullptr);
}

}  // namespace
}  // namespace butterfly::kernels
