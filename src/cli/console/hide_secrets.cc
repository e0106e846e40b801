#include "cli/console/hide_secrets.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace butterfly::cli {
namespace {

constexpr std::string_view kSecretFlags[] = {"--api-key"};

void cover(char* text) { std::fill(text, text + std::strlen(text), 'x'); }

}  // namespace

void hide_secrets(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    for (const std::string_view flag : kSecretFlags) {
      if (word == flag && i + 1 < argc) cover(argv[i + 1]);
      if (word.size() > flag.size() && word.starts_with(flag) && word[flag.size()] == '=')
        cover(argv[i] + flag.size() + 1);
    }
  }
}

}  // namespace butterfly::cli
