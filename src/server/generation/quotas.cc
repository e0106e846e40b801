#include "server/generation/quotas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "server/api/api_error.h"

namespace butterfly::server {
namespace {

[[noreturn]] void refuse(const std::string& words, double seconds) {
  ApiError error(429, "rate_limit_error", words, {}, "rate_limit_exceeded");
  error.retry_after_s = static_cast<int>(std::clamp(std::ceil(seconds), 1.0, 3600.0));
  throw error;
}

}  // namespace

std::shared_ptr<Quotas::Lease> Quotas::begin(uint64_t owner, TimePoint now) {
  const auto per_minute = [](size_t count) { return static_cast<double>(count); };
  if (options_.requests_per_minute + options_.tokens_per_minute + options_.requests_at_once == 0)
    return nullptr;
  const std::lock_guard lock(mutex_);
  const auto [it, is_new] = accounts_.try_emplace(owner);
  Account& account = it->second;
  const double minutes =
      is_new ? 1.0 : std::chrono::duration<double, std::ratio<60>>(now - account.at).count();
  account.at = now;
  const auto fill = [&](double& left, size_t bound) {
    left = std::min(per_minute(bound), left + per_minute(bound) * minutes);
  };
  fill(account.requests, options_.requests_per_minute);
  fill(account.tokens, options_.tokens_per_minute);
  if (options_.requests_at_once > 0 && account.under_way >= options_.requests_at_once)
    refuse(fmt::format("this key has {} requests under way, at most {} at once", account.under_way,
                       options_.requests_at_once),
           1);
  if (options_.requests_per_minute > 0 && account.requests < 1)
    refuse(fmt::format("this key may send {} requests a minute", options_.requests_per_minute),
           (1 - account.requests) / per_minute(options_.requests_per_minute) * 60);
  if (options_.tokens_per_minute > 0 && account.tokens <= 0)
    refuse(fmt::format("this key may use {} tokens a minute", options_.tokens_per_minute),
           (1 - account.tokens) / per_minute(options_.tokens_per_minute) * 60);
  account.requests -= 1;
  ++account.under_way;
  return std::make_shared<Lease>(shared_from_this(), owner);
}

void Quotas::end(uint64_t owner) {
  const std::lock_guard lock(mutex_);
  --accounts_[owner].under_way;
}

void Quotas::take_back(uint64_t owner) {
  const std::lock_guard lock(mutex_);
  accounts_[owner].requests += 1;
}

void Quotas::spend(uint64_t owner, size_t tokens) {
  const std::lock_guard lock(mutex_);
  accounts_[owner].tokens -= static_cast<double>(tokens);
}

}  // namespace butterfly::server
