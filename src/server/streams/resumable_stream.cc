#include "server/streams/resumable_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace butterfly::server {

ResumableStream::ResumableStream(std::string id, int64_t created, HttpRequest request, ExchangePtr client,
                                 std::function<bool()> may_speak)
    : id_(std::move(id)),
      created_(created),
      request_(std::move(request)),
      log_id_(client != nullptr ? client->id() : id_),
      may_speak_(std::move(may_speak)),
      client_(std::move(client)) {
  if (client_ == nullptr) alone_since_ = system_now();
}

void ResumableStream::listen_to_client() {
  ExchangePtr client;
  {
    const std::lock_guard lock(mutex_);
    client = client_;
  }
  // Not under the lock: where it has gone already this is called at once.
  if (client != nullptr)
    client->on_gone([weak = weak_from_this(), gone = client.get()] {
      if (const auto self = weak.lock()) self->client_gone(gone);
    });
}

void ResumableStream::client_gone(const Exchange* client) {
  const std::lock_guard lock(mutex_);
  if (client_.get() != client) return;  // another one is there by now
  client_.reset();
  alone_since_ = system_now();
}

std::string ResumableStream::numbered(uint64_t number, const std::string& piece) const {
  return lines_ ? piece : fmt::format("id: {}:{}\n{}", id_, number, piece);
}

void ResumableStream::respond(HttpResponse response) {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  if (client_ != nullptr) {
    client_->respond(std::move(response));
    client_.reset();
    alone_since_ = system_now();
  } else {
    whole_ = std::move(response);
  }
}

void ResumableStream::begin(HttpResponse head, std::string ping) {
  const std::lock_guard lock(mutex_);
  head_ = std::move(head);
  if (lines_) head_->fields.emplace_back(kStreamIdField, id_);
  ping_ = std::move(ping);
  if (client_ != nullptr) client_->begin(*head_, ping_);
}

void ResumableStream::write(std::string piece) {
  piece.shrink_to_fit();  // it is kept for long, and may have been put together with room for twice as much
  const std::lock_guard lock(mutex_);
  bytes_ += piece.size();
  pieces_.push_back(std::move(piece));
  send_kept();
  while (bytes_ > kBytesMax && pieces_.size() > 1) {
    bytes_ -= pieces_.front().size();
    pieces_.pop_front();
    ++first_;
  }
  // Nothing may be missing in the middle of what a client reads.
  if (client_ != nullptr && head_ && sent_ + 1 < first_) {
    client_->end();
    client_.reset();
    alone_since_ = system_now();
  }
}

void ResumableStream::end_client() {
  if (!failure_.empty()) client_->write(failure_);
  handed_over_ = handed_over_ || failure_.empty();
  client_->end();
  client_.reset();
  alone_since_ = system_now();
}

void ResumableStream::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  send_kept();
}

void ResumableStream::fail(std::string piece) {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  failure_ = std::move(piece);
  send_kept();
}

void ResumableStream::send_kept() {
  if (!released_ || client_ == nullptr || !head_ || (may_speak_ && !may_speak_())) return;
  for (uint64_t number = std::max(sent_ + 1, first_); number < first_ + pieces_.size(); ++number)
    client_->write(numbered(sent_ = number, pieces_[number - first_]));
  if (ended_) end_client();
}

void ResumableStream::flush() {
  const std::lock_guard lock(mutex_);
  send_kept();
}

void ResumableStream::release() {
  const std::lock_guard lock(mutex_);
  released_ = true;
  send_kept();
}

Status ResumableStream::attach(ExchangePtr client, uint64_t after) {
  ExchangePtr before;
  bool begun = false;
  {
    const std::lock_guard lock(mutex_);
    if (given_up_) return {Errc::kNotFound, "this stream was given up"};
    if (after + 1 < first_)
      return {Errc::kNotFound,
              fmt::format("events behind {} are not kept any more, the oldest is {}", after, first_)};
    before = std::exchange(client_, std::move(client));
    alone_since_.reset();
    sent_ = after;
    begun = head_.has_value();
    if (whole_) {
      client_->respond(*whole_);
      client_.reset();
      alone_since_ = system_now();
    } else if (head_) {
      client_->begin(*head_, ping_);
      send_kept();
    }
  }
  if (before != nullptr && begun) before->end();
  listen_to_client();
  return {};
}

void ResumableStream::give_up() {
  std::function<void()> action;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(given_up_, true)) return;
    if (!ended_) action = std::exchange(on_gone_, nullptr);
  }
  if (action) action();
}

bool ResumableStream::gone() const {
  const std::lock_guard lock(mutex_);
  return given_up_;
}

void ResumableStream::on_gone(std::function<void()> action) {
  {
    const std::lock_guard lock(mutex_);
    if (!given_up_) {
      on_gone_ = std::move(action);
      return;
    }
  }
  action();
}

ResumableStream::View ResumableStream::view() const {
  const std::lock_guard lock(mutex_);
  return {ended_, handed_over_, alone_since_};
}

}  // namespace butterfly::server
