// Bytes from a peer as control messages, both ways: refused, or a message that comes back as it is.
#include <cstdlib>

#include "cluster/member/control_message.h"

namespace {

using namespace butterfly::cluster;

template <typename Decode>
void check(std::span<const std::byte> body, Decode decode) {
  const auto message = decode(body);
  if (!message.ok()) return;
  const auto bytes = encode(*message);
  const auto again = decode(std::span<const std::byte>(bytes));
  if (!again.ok() || encode(*again) != bytes) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto body = std::as_bytes(std::span(data, size));
  check(body, [](auto bytes) { return decode_to_coordinator(bytes); });
  check(body, [](auto bytes) { return decode_to_worker(bytes); });
  return 0;
}
