#include "model/grammar/string_escape.h"

namespace butterfly::model::grammar {

StringEscape::Result StringEscape::feed(uint8_t byte, uint32_t& character) {
  switch (mode) {
    case kBackslash: {
      constexpr char kFrom[] = "\"\\/bfnrt";
      constexpr char kTo[] = "\"\\/\b\f\n\r\t";
      for (size_t i = 0; i < 8; ++i)
        if (byte == static_cast<uint8_t>(kFrom[i]) && !(plain && byte == '/')) {
          character = static_cast<uint8_t>(kTo[i]);
          mode = kNone;
          return Result::kCharacter;
        }
      if (byte != 'u') return Result::kBad;
      mode = kHex0;
      code = 0;
      return Result::kMore;
    }
    case kNeedBackslash:
      if (byte != '\\') return Result::kBad;
      mode = kNeedU;
      return Result::kMore;
    case kNeedU:
      if (byte != 'u') return Result::kBad;
      mode = kHex0;
      code = 0;
      return Result::kMore;
    case kNone:
      return Result::kBad;
    default:
      break;
  }
  const int digit = byte >= '0' && byte <= '9'   ? byte - '0'
                    : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
                    : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                                 : -1;
  if (digit < 0) return Result::kBad;
  code = static_cast<uint16_t>(code << 4 | digit);
  // Control characters are 0000 to 001f.
  if (plain && code > (mode == kHex3 ? 0x1f : mode == kHex2 ? 1 : 0)) return Result::kBad;
  if (mode != kHex3) {
    mode = static_cast<Mode>(mode + 1);
    // A low half is told by its first two digits, and must not begin a character.
    const bool low = mode == kHex2 && code >= 0xDC && code <= 0xDF;
    if (mode == kHex2 && low != (high != 0)) return Result::kBad;
    if (mode == kHex1 && high != 0 && code != 0xD) return Result::kBad;
    return Result::kMore;
  }
  if (high != 0) {
    character = 0x10000 + ((high - 0xD800u) << 10) + (code - 0xDC00u);
    high = 0;
    mode = kNone;
    return Result::kCharacter;
  }
  if (code >= 0xD800 && code <= 0xDBFF) {
    high = code;
    mode = kNeedBackslash;
    return Result::kMore;
  }
  character = code;
  mode = kNone;
  return Result::kCharacter;
}

}  // namespace butterfly::model::grammar
