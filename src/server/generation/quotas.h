// What each API key may ask for: requests and tokens a minute, requests at once.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/clock.h"

namespace butterfly::server {

// 0: no bound.
struct QuotaOptions {
  size_t requests_per_minute = 0;
  size_t tokens_per_minute = 0;  // read and written; what the cache had is free
  size_t requests_at_once = 0;
};

// Buckets that fill steadily and hold a minute's worth, so that a burst passes and a stream does not. Tokens
// are counted when a request ends, so its bucket may fall below nothing; the next request waits that off.
// Thread-safe.
class Quotas : public std::enable_shared_from_this<Quotas> {
 public:
  explicit Quotas(const QuotaOptions& options) : options_(options) {}

  // One request under way; it ends with the object. Shared by whoever works on it.
  class Lease {
   public:
    Lease(std::shared_ptr<Quotas> quotas, uint64_t owner) : quotas_(std::move(quotas)), owner_(owner) {}
    ~Lease() { quotas_->end(owner_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    void spend(size_t tokens) { quotas_->spend(owner_, tokens); }
    // It will begin again: it does not count as a request of its own.
    void take_back() { quotas_->take_back(owner_); }

   private:
    const std::shared_ptr<Quotas> quotas_;
    const uint64_t owner_;
  };

  // Throws ApiError 429 that says which bound it is and when to come again. Null where nothing is bounded.
  std::shared_ptr<Lease> begin(uint64_t owner, TimePoint now);

 private:
  struct Account {
    TimePoint at{};
    double requests = 0, tokens = 0;  // left
    size_t under_way = 0;
  };
  void end(uint64_t owner);
  void spend(uint64_t owner, size_t tokens);
  void take_back(uint64_t owner);

  const QuotaOptions options_;
  std::mutex mutex_;
  std::map<uint64_t, Account> accounts_;  // one for each key: they are few
};

}  // namespace butterfly::server
