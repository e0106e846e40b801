#include "base/printable.h"

#include <fmt/format.h>

namespace butterfly {

std::string printable(std::string_view text, size_t length_max) {
  std::string result;
  for (const char c : text.substr(0, length_max)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f)
      result += fmt::format("\\x{:02x}", byte);
    else
      result += c;
  }
  return text.size() > length_max ? result + "..." : result;
}

}  // namespace butterfly
