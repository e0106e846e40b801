#include "server/streams/resumable_stream.h"

#include <fmt/format.h>

#include <utility>

namespace butterfly::server {

ResumableStream::ResumableStream(std::string id, int64_t created, HttpRequest request, ExchangePtr client)
    : id_(std::move(id)),
      created_(created),
      request_(std::move(request)),
      log_id_(client != nullptr ? client->id() : id_),
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
  return fmt::format("id: {}:{}\n{}", id_, number, piece);
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
  ping_ = std::move(ping);
  if (client_ != nullptr) client_->begin(*head_, ping_);
}

void ResumableStream::write(std::string piece) {
  const std::lock_guard lock(mutex_);
  const uint64_t number = first_ + pieces_.size();
  bytes_ += piece.size();
  pieces_.push_back(std::move(piece));
  if (released_ && client_ != nullptr && number > sent_) {
    client_->write(numbered(number, pieces_.back()));
    sent_ = number;
  }
  while (bytes_ > kBytesMax && pieces_.size() > 1) {
    bytes_ -= pieces_.front().size();
    pieces_.pop_front();
    ++first_;
  }
}

void ResumableStream::end_client() {
  if (!failure_.empty()) client_->write(failure_);
  client_->end();
  client_.reset();
  alone_since_ = system_now();
}

void ResumableStream::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  if (released_ && client_ != nullptr) end_client();
}

void ResumableStream::fail(std::string piece) {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  failure_ = std::move(piece);
  if (released_ && client_ != nullptr) end_client();
}

void ResumableStream::send_kept() {
  for (size_t i = 0; i < pieces_.size(); ++i)
    if (first_ + i > sent_) client_->write(numbered(sent_ = first_ + i, pieces_[i]));
  if (ended_) end_client();
}

void ResumableStream::release() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(released_, true) || client_ == nullptr || !head_) return;
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
      if (released_) send_kept();
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
  return {ended_, alone_since_};
}

}  // namespace butterfly::server
