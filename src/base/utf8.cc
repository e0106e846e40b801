#include "base/utf8.h"

#include <algorithm>
#include <cstdint>

namespace butterfly {
namespace {

struct Lead {
  size_t length;              // 0: not a lead byte
  uint8_t second_min = 0x80;  // range of the second byte; the others are 80..BF
  uint8_t second_max = 0xbf;
};

Lead classify(uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xc2) return {0};
  if (byte < 0xe0) return {2};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte < 0xf0) return {3};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0};
}

// How many bytes at the front fit the pattern of the character that text[0] begins: `lead.length` if it is
// complete.
size_t matching_bytes(const Lead& lead, std::string_view text) {
  size_t i = 1;
  for (; i < lead.length && i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint8_t min = i == 1 ? lead.second_min : 0x80;
    const uint8_t max = i == 1 ? lead.second_max : 0xbf;
    if (byte < min || byte > max) break;
  }
  return i;
}

}  // namespace

size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const Lead lead = classify(static_cast<uint8_t>(text[0]));
  if (lead.length <= 1) return lead.length;
  return matching_bytes(lead, text) == lead.length ? lead.length : 0;
}

size_t utf8_whole_bytes(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const std::string_view tail = text.substr(text.size() - back);
    const Lead lead = classify(static_cast<uint8_t>(tail[0]));
    if (lead.length > back && matching_bytes(lead, tail) == back) return text.size() - back;
  }
  return text.size();
}

std::string utf8_replace_invalid(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (length == 0)
      result += "\xef\xbf\xbd";
    else
      result += text.substr(0, length);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return result;
}

}  // namespace butterfly
