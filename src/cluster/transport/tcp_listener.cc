#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>

#include "base/log.h"
#include "cluster/transport/half_open.h"
#include "cluster/transport/tcp.h"
#include "cluster/transport/tcp_link.h"

namespace butterfly::cluster {
namespace {

constexpr Duration kPauseWhenOut = std::chrono::milliseconds(100);  // of file descriptors or memory
constexpr int kAcceptsAtOnce = 16;                                  // then those half open get their turn

class TcpListener final : public Listener {
 public:
  TcpListener(std::shared_ptr<const NodeTls> tls, ListeningSocket listening, TcpOptions options,
              EnrolHandler enrol)
      : tls_(std::move(tls)),
        options_(options),
        enrol_(std::move(enrol)),
        socket_(std::move(listening.socket)),
        address_(std::move(listening.address)),
        wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (wake_.fd() < 0) fail(Errc::kIo, "{}: no event: {}", address_, std::strerror(errno));
  }
  ~TcpListener() override { TcpListener::close(); }

  const std::string& address() const override { return address_; }

  Result<std::unique_ptr<Link>> accept(Duration timeout) override {
    const Deadline deadline(SystemClock::instance(), timeout);
    // Once more after the deadline, for what came at the last moment; but callers who keep this busy do not
    // hold it.
    for (bool late = false;; late = deadline.expired()) {
      if (closed_.load()) return {Errc::kCancelled, fmt::format("{}: closed on this side", address_)};
      if (std::unique_ptr<Link> link = advance_ready()) return link;
      take_callers();
      drop_late();
      if (late) return {Errc::kTimeout, fmt::format("{}: nobody came", address_)};
      wait(deadline);
    }
  }

  void close() override {
    closed_.store(true);
    const uint64_t one = 1;
    (void)!::write(wake_.fd(), &one, sizeof one);
  }

 private:
  struct Entry {
    HalfOpen connection;
    bool ready = true;  // poll said so, or it is new
  };

  // Until one proves itself; the others keep their turn for the next call.
  std::unique_ptr<Link> advance_ready() {
    for (auto at = half_open_.begin(); at != half_open_.end();) {
      if (!at->ready) {
        ++at;
        continue;
      }
      at->ready = false;
      switch (at->connection.advance()) {
        case HalfOpen::Outcome::kGoesOn:
          ++at;
          continue;
        case HalfOpen::Outcome::kFinished:
          at = half_open_.erase(at);
          continue;
        case HalfOpen::Outcome::kProved: {
          std::unique_ptr<TlsChannel> channel = at->connection.take();
          half_open_.erase(at);
          NodeId peer = channel->peer();
          return std::make_unique<TcpLink>(std::move(channel), std::move(peer), options_, tls_->open_links());
        }
      }
    }
    return nullptr;
  }

  void take_callers() {
    for (int i = 0; i < kAcceptsAtOnce; ++i) {
      Socket socket(::accept4(socket_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (socket.fd() < 0) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) {
          log_warn("{}: cannot take a caller: {}", address_, std::strerror(errno));
          paused_until_ = SystemClock::instance().now() + kPauseWhenOut;
        }
        return;
      }
      if (half_open_.size() >= options_.half_open_max) drop_one_of_many();
      set_stream_options(socket, options_.user_timeout);
      std::string host = peer_host(socket);
      half_open_.push_back({HalfOpen(std::move(socket), tls_->server(), std::move(host),
                                     options_.handshake_timeout, enrol_ ? &enrol_ : nullptr),
                            true});
    }
  }

  // An attacker from one address can push out only itself.
  void drop_one_of_many() {
    std::map<std::string_view, size_t> by_host;
    for (const Entry& entry : half_open_) ++by_host[entry.connection.host()];
    const auto most = std::max_element(by_host.begin(), by_host.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    half_open_.erase(std::find_if(half_open_.begin(), half_open_.end(), [&](const Entry& entry) {
      return entry.connection.host() == most->first;
    }));
  }

  void drop_late() {
    half_open_.remove_if([](const Entry& entry) { return entry.connection.deadline().expired(); });
  }

  // Sleeps until something is ready.
  void wait(const Deadline& deadline) {
    if (std::any_of(half_open_.begin(), half_open_.end(), [](const Entry& entry) { return entry.ready; }))
      return;
    TimePoint until = deadline.when();
    const TimePoint now = SystemClock::instance().now();
    const bool paused = now < paused_until_;
    if (paused) until = std::min(until, paused_until_);
    polled_.clear();
    polled_.push_back({wake_.fd(), POLLIN, 0});
    polled_.push_back({paused ? -1 : socket_.fd(), POLLIN, 0});  // poll() passes over negative numbers
    for (const Entry& entry : half_open_) {
      polled_.push_back({entry.connection.fd(), entry.connection.events(), 0});
      until = std::min(until, entry.connection.deadline().when());
    }
    (void)::poll(polled_.data(), polled_.size(),
                 poll_milliseconds(Deadline::at(SystemClock::instance(), until)));
    size_t i = 2;
    for (Entry& entry : half_open_) entry.ready = polled_[i++].revents != 0;
  }

  const std::shared_ptr<const NodeTls> tls_;
  const TcpOptions options_;
  const EnrolHandler enrol_;
  const Socket socket_;
  const std::string address_;
  const Socket wake_;
  std::atomic<bool> closed_{false};
  std::list<Entry> half_open_;  // at most options_.half_open_max
  std::vector<pollfd> polled_;
  TimePoint paused_until_{};
};

}  // namespace

Result<std::unique_ptr<Listener>> tcp_listen(std::shared_ptr<const NodeTls> tls, const std::string& address,
                                             TcpOptions options, EnrolHandler enrol) {
  auto listening = listen_socket(address);
  if (!listening) return listening.status();
  return std::unique_ptr<Listener>(
      std::make_unique<TcpListener>(std::move(tls), *std::move(listening), options, std::move(enrol)));
}

}  // namespace butterfly::cluster
