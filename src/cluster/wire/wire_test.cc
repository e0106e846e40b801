// What WireWriter writes WireReader reads; what is cut, too long or out of range is refused in words.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "cluster/wire/wire_reader.h"
#include "cluster/wire/wire_writer.h"

namespace butterfly::cluster {
namespace {

enum class Colour : uint8_t { kRed = 1, kGreen = 2, kBlue = 3 };

TEST(Wire, BytesAreLittleEndian) {
  WireWriter out;
  out.u16(0x0102);
  out.u32(0x03040506);
  out.text("ab");
  const uint8_t expected[] = {2, 1, 6, 5, 4, 3, 2, 0, 0, 0, 'a', 'b'};
  ASSERT_EQ(out.size(), sizeof expected);
  for (size_t i = 0; i < sizeof expected; ++i)
    EXPECT_EQ(std::to_integer<int>(out.bytes()[i]), expected[i]) << i;
}

RC_GTEST_PROP(Wire, ReadsBackWhatWasWritten,
              (uint8_t a, uint16_t b, uint32_t c, uint64_t d, int64_t e, bool f, const std::string& g,
               const std::vector<uint64_t>& h)) {
  WireWriter out;
  out.u8(a);
  out.u16(b);
  out.u32(c);
  out.u64(d);
  out.i64(e);
  out.flag(f);
  out.text(g);
  out.count(h.size());
  for (const uint64_t value : h) out.u64(value);
  out.f32(-0.0f);
  out.f64(std::numeric_limits<double>::denorm_min());
  out.enumerator(Colour::kBlue);

  WireReader in(out.bytes());
  RC_ASSERT(in.u8() == a);
  RC_ASSERT(in.u16() == b);
  RC_ASSERT(in.u32() == c);
  RC_ASSERT(in.u64() == d);
  RC_ASSERT(in.i64() == e);
  RC_ASSERT(in.flag() == f);
  RC_ASSERT(in.text(g.size()) == g);
  RC_ASSERT(in.count(static_cast<uint32_t>(h.size()), 8) == h.size());
  for (const uint64_t value : h) RC_ASSERT(in.u64() == value);
  RC_ASSERT(std::bit_cast<uint32_t>(in.f32()) == 0x80000000u);
  RC_ASSERT(in.f64() == std::numeric_limits<double>::denorm_min());
  RC_ASSERT(in.enumerator(Colour::kRed, Colour::kBlue) == Colour::kBlue);
  RC_ASSERT(in.finish("test").ok());

  // Cut anywhere, it is refused.
  const size_t cut = *rc::gen::inRange<size_t>(0, out.size());
  WireReader shorter(out.bytes().first(cut));
  shorter.u8(), shorter.u16(), shorter.u32(), shorter.u64(), shorter.i64(), shorter.flag(),
      shorter.text(g.size());
  for (uint32_t n = shorter.count(static_cast<uint32_t>(h.size()), 8); n > 0; --n) shorter.u64();
  shorter.f32(), shorter.f64(), shorter.enumerator(Colour::kRed, Colour::kBlue);
  RC_ASSERT(shorter.finish("test").code() == Errc::kCorrupt);
}

TEST(Wire, SaysWhatIsWrong) {
  WireWriter out;
  out.u32(7);
  {
    WireReader in(out.bytes());
    in.u8();
    in.u64();
    EXPECT_EQ(in.u16(), 0) << "after an error nothing is read";
    EXPECT_EQ(in.finish("hello").text(), "[hello] byte 1: needs 8 bytes, 3 are left");
  }
  {
    WireReader in(out.bytes());
    EXPECT_EQ(in.text(6), "");
    EXPECT_EQ(in.finish("hello").text(), "[hello] byte 4: 7 bytes, at most 6 are allowed");
  }
  {
    WireReader in(out.bytes());
    in.u16();
    EXPECT_EQ(in.finish("hello").text(), "[hello] byte 2: 2 bytes too many");
  }
}

TEST(Wire, AFewBytesDoNotAskForMuchMemory) {
  WireWriter out;
  out.u32(1'000'000);
  out.u64(0);
  WireReader in(out.bytes());
  EXPECT_EQ(in.count(2'000'000, 8), 0u);
  EXPECT_EQ(in.finish("list").text(), "[list] byte 4: 1000000 elements of 8 bytes or more, 8 bytes are left");
}

TEST(Wire, CountsAboveTheLimitAreRefused) {
  WireWriter out;
  out.u32(9);
  for (int i = 0; i < 9; ++i) out.u8(0);
  WireReader in(out.bytes());
  EXPECT_EQ(in.count(8, 1), 0u);
  EXPECT_EQ(in.finish("list").code(), Errc::kCorrupt);
}

TEST(Wire, ValuesHaveOneForm) {
  const std::byte two[] = {std::byte{2}};
  WireReader in(two);
  EXPECT_FALSE(in.flag());
  EXPECT_EQ(in.finish("x").code(), Errc::kCorrupt);
  for (const uint8_t value : {uint8_t{0}, uint8_t{4}, uint8_t{255}}) {
    const std::byte bytes[] = {std::byte{value}};
    WireReader enums(bytes);
    EXPECT_EQ(enums.enumerator(Colour::kRed, Colour::kBlue), Colour::kRed);
    EXPECT_EQ(enums.finish("x").code(), Errc::kCorrupt);
  }
}

TEST(Wire, TheFirstReasonStays) {
  const std::byte bytes[4] = {};
  WireReader in(bytes);
  in.u16();
  in.refuse("layers end before they begin");
  in.refuse("another");
  EXPECT_EQ(in.finish("plan").text(), "[plan] byte 2: layers end before they begin");
}

}  // namespace
}  // namespace butterfly::cluster
