// Packed arrays come back as they were, from pieces of any size; damaged code is refused.
#include "cluster/wire/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/rng.h"

namespace butterfly::cluster {
namespace {

using Bytes = std::vector<std::byte>;

// Gradients: small floats around zero.
Bytes floats(size_t bytes) {
  Bytes out(bytes);
  for (size_t i = 0; i + 4 <= bytes; i += 4) {
    const float value = (random_uniform(1, 2, i) + random_uniform(1, 3, i) - 1) * 1e-3f;
    std::memcpy(out.data() + i, &value, 4);
  }
  return out;
}

std::vector<std::span<const std::byte>> cut(const Bytes& bytes, size_t piece) {
  std::vector<std::span<const std::byte>> pieces;
  for (size_t at = 0; at < bytes.size(); at += piece)
    pieces.push_back(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
  return pieces;
}

TEST(Packing, ComesBackAsItWas) {
  for (const Packing packing : kPackings)
    for (const size_t planes : {1, 2, 4})
      for (const size_t bytes : {0, 1, 3, 5, 1000, 100'003, 2'000'004})
        for (const size_t piece : {size_t{3'000'000}, size_t{7777}}) {
          const Bytes values = floats(bytes);
          PooledArray<std::byte> code;
          pack(packing, planes, cut(values, piece), code);
          ASSERT_LE(code.size(), packed_bytes_max(bytes, planes));
          Bytes again(bytes);
          std::vector<std::span<std::byte>> pieces;
          for (size_t at = 0; at < bytes; at += 5000)
            pieces.push_back(std::span(again).subspan(at, std::min<size_t>(5000, bytes - at)));
          const Status status = unpack(packing, planes, {code.data(), code.size()}, pieces);
          ASSERT_TRUE(status.ok()) << status.text();
          ASSERT_TRUE(again == values) << packing_name(packing) << " " << planes << " " << bytes;
        }
}

TEST(Packing, PlanesMakeFloatsShorter) {
  const Bytes values = floats(1 << 20), zeros(1 << 20);
  PooledArray<std::byte> mixed, planes, nothing;
  pack(Packing::kZstd, 1, cut(values, values.size()), mixed);
  pack(Packing::kZstd, 4, cut(values, values.size()), planes);
  pack(Packing::kLz4, 4, cut(zeros, zeros.size()), nothing);
  EXPECT_LT(planes.size(), mixed.size());
  EXPECT_LT(planes.size(), values.size() * 9 / 10);
  EXPECT_LT(nothing.size(), zeros.size() / 100);
}

TEST(Packing, DamagedCodeIsRefusedOrOtherBytes) {
  for (const Packing packing : kPackings) {
    Bytes values = floats(10'000);
    std::fill(values.begin(), values.begin() + 5000, std::byte{7});
    PooledArray<std::byte> code;
    pack(packing, 4, cut(values, values.size()), code);
    Bytes again(values.size());
    const std::span<std::byte> piece(again);
    for (size_t size = 0; size < code.size(); size += 13)
      EXPECT_FALSE(unpack(packing, 4, {code.data(), size}, {&piece, 1}).ok());
    const std::span<std::byte> shorter = piece.first(9'996);
    EXPECT_FALSE(unpack(packing, 4, {code.data(), code.size()}, {&shorter, 1}).ok());
    for (uint64_t seed = 0; seed < 500; ++seed) {
      Bytes changed(code.begin(), code.end());
      changed[random_u64(seed, 1, 0) % changed.size()] = static_cast<std::byte>(random_u64(seed, 1, 1));
      (void)unpack(packing, 4, changed, {&piece, 1});  // must only not read or write elsewhere
    }
  }
}

}  // namespace
}  // namespace butterfly::cluster
