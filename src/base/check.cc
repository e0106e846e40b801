#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace butterfly {

CheckFailure::CheckFailure(const char* file, int line, const char* condition) {
  text_ << file << ":" << line << ": check failed: " << condition << " ";
}

CheckFailure::~CheckFailure() {
  text_ << "\n";
  const std::string text = text_.str();
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::abort();
}

}  // namespace butterfly
