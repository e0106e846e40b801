// Addresses of a name, under a deadline: the system's resolver has none of its own, and a name server that
// does not answer holds it for half a minute.
#pragma once
#include <netdb.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace butterfly::cluster {

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, FreeAddresses>;

// A question runs on a thread of its own, which outlives the caller's patience and then ends by itself; at
// most `threads_max` are under way, and who comes when all are waits for one of them. Numbers ("10.0.0.7")
// are answered on the spot. Thread-safe.
class Resolver {
 public:
  // As getaddrinfo(), which it is but in tests.
  using LookUp =
      std::function<int(const char* host, const char* port, const addrinfo* hints, addrinfo** list)>;
  explicit Resolver(LookUp look_up = ::getaddrinfo, size_t threads_max = 8);

  // `host` may be empty: any address of this machine. `flags` and `type` as for getaddrinfo(). kNotFound,
  // kPeerLost when the name server says to try again, kTimeout at the deadline.
  Result<AddressList> resolve(const std::string& host, const std::string& port, int flags, int type,
                              const Deadline& deadline);

  // Of the process.
  static Resolver& instance();

 private:
  struct Shared;
  const std::shared_ptr<Shared> shared_;  // with the threads
};

}  // namespace butterfly::cluster
