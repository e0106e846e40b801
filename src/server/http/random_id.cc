#include "server/http/random_id.h"

#include <unistd.h>

#include "base/error.h"

namespace butterfly::server {

std::string random_id(size_t digits) {
  std::string id(digits, '0');
  unsigned char bytes[128];
  for (size_t done = 0; done < digits;) {
    const size_t count = std::min(sizeof bytes, digits - done);
    if (getentropy(bytes, count) != 0) fail(Errc::kIo, "the system has no random numbers");
    for (size_t i = 0; i < count; ++i) id[done++] = "0123456789abcdef"[bytes[i] & 15];
  }
  return id;
}

}  // namespace butterfly::server
