#include "model/tokenizer/byte_level.h"

#include <array>
#include <cstdint>

#include "base/utf8.h"

namespace butterfly::model {
namespace {

// Printable bytes of Latin-1 stand for themselves; the others, in order, for U+0100 and on.
constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

constexpr int kLetters = 0x100 + 68;  // the last letter is U+0143

struct Letters {
  std::array<uint16_t, 256> letter_of{};
  std::array<int16_t, kLetters> byte_of{};
};

constexpr Letters make_letters() {
  Letters letters;
  letters.byte_of.fill(-1);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const int letter = stands_for_itself(byte) ? byte : next++;
    letters.letter_of[static_cast<size_t>(byte)] = static_cast<uint16_t>(letter);
    letters.byte_of[static_cast<size_t>(letter)] = static_cast<int16_t>(byte);
  }
  return letters;
}

constexpr Letters kTable = make_letters();

}  // namespace

bool append_from_byte_letters(std::string_view text, std::string& bytes) {
  const size_t size_before = bytes.size();
  for (size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    int letter = -1;
    if (lead < 0x80) {
      letter = lead;
      at += 1;
    } else if (utf8_length(text.substr(at, 4)) == 2) {
      letter = (lead & 0x1f) << 6 | (static_cast<unsigned char>(text[at + 1]) & 0x3f);
      at += 2;
    }
    const int byte = letter >= 0 && letter < kLetters ? kTable.byte_of[static_cast<size_t>(letter)] : -1;
    if (byte < 0) {
      bytes.resize(size_before);
      return false;
    }
    bytes += static_cast<char>(byte);
  }
  return true;
}

std::optional<std::string> from_byte_letters(std::string_view text) {
  std::string bytes;
  if (!append_from_byte_letters(text, bytes)) return std::nullopt;
  return bytes;
}

std::string to_byte_letters(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const uint16_t letter = kTable.letter_of[static_cast<unsigned char>(c)];
    if (letter < 0x80) {
      text += static_cast<char>(letter);
    } else {
      text += static_cast<char>(0xc0 | letter >> 6);
      text += static_cast<char>(0x80 | (letter & 0x3f));
    }
  }
  return text;
}

}  // namespace butterfly::model
