#include "cluster/transport/resolver.h"

#include <fmt/format.h>

#include <optional>
#include <system_error>
#include <thread>

namespace butterfly::cluster {
namespace {

addrinfo hints_of(int flags, int type) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = type;
  hints.ai_flags = AI_NUMERICSERV | flags;
  return hints;
}

struct Answer {
  int error = 0;
  AddressList list;
};

}  // namespace

struct Resolver::Shared {
  Shared(LookUp with, size_t max) : look_up(std::move(with)), threads_max(max) {}

  const LookUp look_up;
  const size_t threads_max;
  std::mutex mutex;
  std::condition_variable changed;
  size_t running = 0;
};

Resolver::Resolver(LookUp look_up, size_t threads_max)
    : shared_(std::make_shared<Shared>(std::move(look_up), threads_max)) {}

Resolver& Resolver::instance() {
  static Resolver resolver;
  return resolver;
}

Result<AddressList> Resolver::resolve(const std::string& host, const std::string& port, int flags, int type,
                                      const Deadline& deadline) {
  const auto result_of = [&](Answer answer) -> Result<AddressList> {
    if (answer.error == 0) return std::move(answer.list);
    return Status(answer.error == EAI_AGAIN ? Errc::kPeerLost : Errc::kNotFound,
                  fmt::format("{}:{}: cannot find the address: {}", host, port, gai_strerror(answer.error)));
  };
  {
    addrinfo* list = nullptr;
    const addrinfo hints = hints_of(flags | AI_NUMERICHOST, type);
    const int error = ::getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &list);
    if (error == 0 || host.empty()) return result_of({error, AddressList(list)});
  }

  const auto shared = shared_;
  std::unique_lock lock(shared->mutex);
  const auto wait = [&](auto done) { return shared->changed.wait_for(lock, deadline.remaining(), done); };
  if (!wait([&] { return shared->running < shared->threads_max; }))
    return Status(Errc::kTimeout,
                  fmt::format("{}: the name was not looked up: {} others wait for the name server", host,
                              shared->threads_max));
  const auto box = std::make_shared<std::optional<Answer>>();
  ++shared->running;
  try {
    std::thread([shared, box, host, port, hints = hints_of(flags, type)] {
      addrinfo* list = nullptr;
      const int error = shared->look_up(host.c_str(), port.c_str(), &hints, &list);
      const std::lock_guard inner(shared->mutex);
      box->emplace(Answer{error, AddressList(list)});
      --shared->running;
      shared->changed.notify_all();
    }).detach();
  } catch (const std::system_error& error) {
    --shared->running;
    return Status(Errc::kOutOfMemory, fmt::format("{}: no thread to look it up: {}", host, error.what()));
  }
  if (!wait([&] { return box->has_value(); }))
    return Status(Errc::kTimeout, fmt::format("{}: the name server did not answer in time; an address in "
                                              "numbers needs none",
                                              host));
  return result_of(std::move(**box));
}

}  // namespace butterfly::cluster
