#include "cluster/transport/half_open.h"

#include <poll.h>

#include <algorithm>

#include "base/log.h"
#include "cluster/identity/enrolment.h"
#include "cluster/transport/frame.h"

namespace butterfly::cluster {

using Step = TlsChannel::Step;

HalfOpen::HalfOpen(Socket socket, const TlsContext& context, std::string host, Duration time,
                   const EnrolHandler* enrol)
    : channel_(std::make_unique<TlsChannel>(std::move(socket), context, TlsChannel::Side::kServer)),
      host_(std::move(host)),
      deadline_(SystemClock::instance(), time),
      enrol_(enrol),
      events_(POLLIN) {
  allow_join(channel_->ssl(), enrol != nullptr);
}

HalfOpen::Outcome HalfOpen::advance() {
  switch (state_) {
    case State::kHandshake:
      return shake_hands();
    case State::kQuestion:
      return read_question();
    case State::kAnswer:
      return write_answer();
  }
  return Outcome::kFinished;
}

HalfOpen::Outcome HalfOpen::shake_hands() {
  if (const Step step = channel_->handshake(); step != Step::kDone) return after(step);
  if (channel_->protocol() == kLinkProtocol)
    return channel_->peer().key.empty() ? Outcome::kFinished : Outcome::kProved;
  if (channel_->protocol() != kJoinProtocol || enrol_ == nullptr) {
    log_debug("{}: names no protocol of ours", host_);
    return Outcome::kFinished;
  }
  state_ = State::kQuestion;
  buffer_.resize(kFrameBytes);
  return read_question();
}

HalfOpen::Outcome HalfOpen::read_question() {
  for (;;) {
    while (done_ < buffer_.size()) {
      size_t count = 0;
      if (const Step step = channel_->read(std::span(buffer_).subspan(done_), count); step != Step::kDone)
        return after(step);
      done_ += count;
    }
    if (done_ > kFrameBytes) break;
    const auto head = decode_frame(std::span<const std::byte, kFrameBytes>(buffer_.data(), kFrameBytes));
    if (!head || head->kind != MessageKind::kControl || head->bytes == 0 ||
        head->bytes > kEnrolmentBytesMax) {
      log_debug("{}: sends no question of a node that wants to join", host_);
      return Outcome::kFinished;
    }
    buffer_.resize(kFrameBytes + head->bytes);
  }
  const std::vector<std::byte> answer =
      (*enrol_)(std::span<const std::byte>(buffer_).subspan(kFrameBytes), host_);
  const FrameBytes frame = encode_frame(
      {.kind = MessageKind::kControl, .epoch = 0, .step = 0, .bytes = static_cast<uint32_t>(answer.size())});
  buffer_.assign(frame.begin(), frame.end());
  buffer_.insert(buffer_.end(), answer.begin(), answer.end());
  done_ = 0;
  state_ = State::kAnswer;
  return write_answer();
}

HalfOpen::Outcome HalfOpen::write_answer() {
  while (done_ < buffer_.size()) {
    size_t count = 0;
    if (const Step step = channel_->write(std::span<const std::byte>(buffer_).subspan(done_), false, count);
        step != Step::kDone)
      return after(step);
    done_ += count;
  }
  channel_->say_goodbye();
  return Outcome::kFinished;
}

HalfOpen::Outcome HalfOpen::after(Step step) {
  if (step == Step::kFailed) {
    log_debug("{}: no link: {}", host_, channel_->reason());
    return Outcome::kFinished;
  }
  events_ = step == Step::kWantRead ? POLLIN : POLLOUT;
  return Outcome::kGoesOn;
}

}  // namespace butterfly::cluster
