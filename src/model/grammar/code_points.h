// Sets of characters, and how they are written as bytes.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace butterfly::model::grammar {

inline constexpr uint32_t kCodePointMax = 0x10FFFF;

struct CodePointRange {
  uint32_t first = 0, last = 0;  // both included
};

// Sorted ranges that neither touch nor overlap. Surrogates are no characters and are never members.
class CodePointSet {
 public:
  CodePointSet() = default;
  static CodePointSet all();
  static CodePointSet of(uint32_t first, uint32_t last);

  void add(uint32_t first, uint32_t last);
  void add(const CodePointSet& other);
  CodePointSet negated() const;
  bool contains(uint32_t code_point) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<CodePointRange>& ranges() const { return ranges_; }

 private:
  std::vector<CodePointRange> ranges_;
};

struct ByteRange {
  uint8_t first = 0, last = 0;
};

// One to four byte ranges: every choice of a byte from each is the UTF-8 of a member.
struct ByteSequence {
  std::array<ByteRange, 4> bytes;
  int count = 0;
};

// Sequences that together hold exactly the set.
std::vector<ByteSequence> utf8_sequences(const CodePointSet& set);
void append_utf8(uint32_t code_point, std::string& text);

}  // namespace butterfly::model::grammar
