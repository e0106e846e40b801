// BF_CHECK: our own mistakes end the program with place, condition and text. Never for input.
#pragma once
#include <sstream>

namespace butterfly {

// Collects the message of a failed check; its destructor prints and aborts.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return text_; }

 private:
  std::ostringstream text_;
};

struct CheckVoidify {
  void operator&(std::ostream&) const {}
};

}  // namespace butterfly

#define BF_CHECK(condition) \
  (condition)               \
      ? (void)0             \
      : ::butterfly::CheckVoidify() & ::butterfly::CheckFailure(__FILE__, __LINE__, #condition).stream()

// For inner loops: present in dev and sanitizer builds, compiled but not run in release.
#ifdef NDEBUG
#define BF_DCHECK(condition) BF_CHECK(true || (condition))
#else
#define BF_DCHECK(condition) BF_CHECK(condition)
#endif
