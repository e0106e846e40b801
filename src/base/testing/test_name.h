// Names of parametrised tests, in which GoogleTest allows letters, digits and underscores only.
#pragma once
#include <string>
#include <string_view>

namespace butterfly::testing {

// "gpt-oss" becomes "gpt_oss".
inline std::string test_name(std::string_view text) {
  std::string name(text);
  for (char& c : name)
    if (c == '-' || c == '.') c = '_';
  return name;
}

}  // namespace butterfly::testing
