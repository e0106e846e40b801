// The Exchange of a real connection: hands everything to the network's thread. Only for http/.
#pragma once
#include <boost/asio/post.hpp>
#include <mutex>

#include "server/http/connection.h"

namespace butterfly::server {

// Shared by whoever answers; any thread may call it. Calls for a connection that is gone do nothing, and one
// that dies without an answer ends its request.
class ConnectionExchange final : public Exchange {
 public:
  ConnectionExchange(std::shared_ptr<ConnectionShared> shared, std::shared_ptr<Connection> connection,
                     uint64_t serial, std::string id, HttpRequest request)
      : shared_(std::move(shared)),
        connection_(std::move(connection)),
        serial_(serial),
        id_(std::move(id)),
        request_(std::move(request)) {
    ++shared_->open_exchanges;
  }
  ~ConnectionExchange() override {
    --shared_->open_exchanges;
    if (!answered_.load()) post([c = connection_, s = serial_] { c->abandon(s); });
  }

  const HttpRequest& request() const override { return request_; }
  HttpRequest& request() override { return request_; }
  const std::string& id() const override { return id_; }

  void respond(HttpResponse response) override {
    if (answered_.exchange(true)) return;
    response.fields.emplace_back("X-Request-Id", id_);
    post([c = connection_, s = serial_, r = std::move(response)]() mutable { c->respond(s, std::move(r)); });
  }
  void begin(HttpResponse head, std::string ping) override {
    head.fields.emplace_back("X-Request-Id", id_);
    post([c = connection_, s = serial_, h = std::move(head), p = std::move(ping)]() mutable {
      c->begin(s, std::move(h), std::move(p));
    });
  }
  void write(std::string piece) override {
    if (piece.empty() || gone()) return;
    post([c = connection_, s = serial_, p = std::move(piece)] { c->write(s, p); });
  }
  void end() override {
    if (answered_.exchange(true)) return;
    post([c = connection_, s = serial_] { c->end(s); });
  }

  bool gone() const override { return gone_.load(std::memory_order_relaxed); }
  void on_gone(std::function<void()> action) override {
    {
      const std::lock_guard lock(mutex_);
      if (!gone()) {
        action_ = std::move(action);
        return;
      }
    }
    action();
  }
  // The network's thread found the client gone.
  void set_gone() {
    std::function<void()> action;
    {
      const std::lock_guard lock(mutex_);
      gone_ = true;
      action = std::move(action_);
      action_ = nullptr;
    }
    if (action) action();
  }

 private:
  template <typename F>
  void post(F&& f) {
    boost::asio::post(shared_->order, std::forward<F>(f));
  }

  std::shared_ptr<ConnectionShared> shared_;
  std::shared_ptr<Connection> connection_;
  const uint64_t serial_;
  const std::string id_;
  HttpRequest request_;
  std::atomic<bool> answered_{false}, gone_{false};
  std::mutex mutex_;
  std::function<void()> action_;
};

}  // namespace butterfly::server
